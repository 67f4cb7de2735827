"""Where the lock is that threads take turns with; that they then count right is in ``test_watch.py``."""

from __future__ import annotations

import paddle

import fleetmetrics as fm
from fleetmetrics.static import states
from tests.contract import new_programs
from tests.paddle_version import on_legacy_graph
from tests.static.test_variables import fresh


def sections(program):
    """The kinds of the operations between taking the lock and giving it back, of each time; and those outside."""
    inside, outside, held = [], [], False
    block = program.desc.block(0)
    for place in range(block.op_size()):
        kind = block.op(place).type()
        if kind == "dequeue":
            assert not held
            inside.append([])
        elif kind != "enqueue":
            (inside[-1] if held else outside).append(kind)
        held = kind == "dequeue" or (held and kind != "enqueue")
    assert not held
    return inside, outside


@on_legacy_graph
def test_the_lock_reaches_from_the_first_look_at_a_counter_to_its_update_and_no_farther():
    from fleetmetrics.static.threads import locked

    scope = paddle.static.Scope()
    with new_programs() as (main, _):
        x = paddle.static.data("x", [-1, 1], "float32")
        fm.Windowed(fm.Count(), 4, name=fresh("window")).add(x)  # looks at whose turn it is, and counts on
        counters = [state.name for state in states(main)]
        before = sections(main)[1]
        with locked(main, counters, scope):
            inside, outside = sections(main)
        assert inside == [["elementwise_mod", "elementwise_add"], ["scatter", "elementwise_add"]]
        assert outside.count("reshape2") == before.count("reshape2")
        assert sections(main) == ([], before)


@on_legacy_graph
def test_what_may_fail_for_a_batch_has_run_before_the_lock_is_taken_and_into_no_counter():
    from fleetmetrics.static.threads import locked

    with new_programs() as (main, _):
        score, label = paddle.static.data("x", [-1, 1], "float32"), paddle.static.data("y", [-1, 1], "int64")
        fm.static.auc(score, label)
        counters = [state.name for state in states(main)]
        with locked(main, counters, paddle.static.Scope()):
            inside, outside = sections(main)
            block = main.desc.block(0)
            written = [name for place in range(block.op_size()) for name in block.op(place).output_arg_names()]
    assert inside == [["auc", "auc"]] and outside.count("auc") == 2
    assert all(written.count(name) == 1 and written.count(f"{name}@rehearsed") == 1 for name in counters)
