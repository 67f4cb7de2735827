"""Never a hang, never silently local: whatever is in the way, all ranks have the number or a named error in time."""

from __future__ import annotations

import contextlib
import os
import queue
import random
import re
import resource
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, Iterator, Sequence

import numpy as np
import pytest

from fleetmetrics.comm import SocketCommunicator, get_communicator, states
from fleetmetrics.comm.job import Job
from fleetmetrics.errors import FleetMetricsError, NoChannelError
from tests.distributed.cluster import AT_ONCE, SLACK, free_ports
from tests.distributed.forks import BEFORE, SECRET, Fork, crew, member, outcome, results, run, timed, wait_for
from tests.distributed.proxy import Cut, Message, Proxy

pytestmark = [pytest.mark.distributed, pytest.mark.numpy_only]


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


def total(comm: SocketCommunicator, timeout: float = 20.0) -> Any:
    """The sum of rank + 1 over the workers, or an error's text."""
    return outcome(lambda: comm.all_reduce([comm.rank + 1], timeout=timeout).tolist())


# File descriptors


def fill_the_table(number: int) -> list[socket.socket]:
    """Use up this process's descriptors, of which there are this many."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, number))
    opened = []
    with contextlib.suppress(OSError):
        while True:
            opened.append(socket.socket())
    return opened


def test_too_few_descriptors_for_the_workers_are_an_error_at_once_with_the_number(port: int) -> None:
    def work(rank: int) -> Any:
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, 100))
        return timed(lambda: member(0, 200, port).barrier(timeout=30))

    [(text, seconds)] = run(1, work)
    assert text.startswith("NoChannelError: rank 0 needs 2") and "may have only 100" in text
    assert seconds < SLACK


def test_the_soft_limit_of_descriptors_is_raised_where_the_hard_one_allows_it(port: int) -> None:
    def work(rank: int) -> Any:
        resource.setrlimit(resource.RLIMIT_NOFILE, (12, 100))
        return total(member(rank, 9, port)), resource.getrlimit(resource.RLIMIT_NOFILE)[0]

    found = run(9, work)
    assert [value for value, _ in found] == [[45]] * 9
    assert 12 < found[0][1] <= 100


@pytest.mark.parametrize("when", ["before", "while"])
def test_rank_0_without_a_free_descriptor_says_so_by_the_deadline_and_does_not_spin(
    port: int, tmp_path: Path, when: str
) -> None:
    def work(rank: int) -> Any:
        comm = member(rank, 3, port)
        if rank == 2:
            wait_for(tmp_path / "filled")
        opened = []

        def fill(*_: object) -> None:
            opened.extend(fill_the_table(64))
            (tmp_path / "filled").mkdir()  # to touch it would take a descriptor

        if rank == 0 and when == "before":
            fill()
        elif rank == 0:
            signal.signal(signal.SIGUSR1, fill)
            (tmp_path / "begun").touch()
        before = resource.getrusage(resource.RUSAGE_SELF)
        found = timed(lambda: comm.barrier(timeout=2))
        for sock in opened:
            sock.close()
        after = resource.getrusage(resource.RUSAGE_SELF)
        return *found, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    with crew(3, work) as workers:
        if when == "while":
            wait_for(tmp_path / "begun")
            wait_until_it_sleeps(workers[0].pid)
            workers[0].kill(signal.SIGUSR1)
        found = results(workers)
    assert "descriptor" in found[0][0], found
    assert found[0][0].startswith(("DeadlineError: rank", "NoChannelError: rank 0 needs"))
    for text, seconds, processor in found:
        assert text.startswith(("DeadlineError: rank", "NoChannelError: rank 0 needs")), found
        assert seconds < 2 + SLACK and processor < 1.0


# The handshake


@pytest.mark.parametrize("reset", [True, False], ids=["reset", "ended"])
@pytest.mark.parametrize("place", ["greeting", "hello", "welcome", "after the welcome"])
def test_a_connection_lost_in_the_handshake_is_made_again(port: int, place: str, reset: bool) -> None:
    inward, number, passes = {
        "greeting": (False, 0, False),
        "hello": (True, 0, False),
        "welcome": (False, 1, False),
        "after the welcome": (False, 1, True),
    }[place]
    lost = []

    def edit(message: Message) -> Sequence[bytes]:
        if (message.inward, message.number) == (inward, number) and message.rank in (-1, 1) and len(lost) < 2:
            lost.append(message)
            raise Cut(reset, message.data if passes else b"")
        return [message.data]

    def work(rank: int) -> Any:
        return timed(
            lambda: member(rank, 3, port, BEFORE if rank else "127.0.0.1").all_reduce([1], timeout=20).tolist()
        )

    with Proxy((BEFORE, port), ("127.0.0.1", port), edit=edit, patience=10):
        found = run(3, work)
    assert len(lost) == 2
    assert [value for value, _ in found] == [[3]] * 3
    assert all(seconds < AT_ONCE for _, seconds in found)


def test_rank_0_that_ends_in_the_first_exchange_is_gone_at_once(port: int) -> None:
    """It had let the worker in and had said nothing yet: a connection lost then is tried again, but not for long."""
    met = []
    started: queue.Queue[Any] = queue.Queue()

    def edit(message: Message) -> Sequence[bytes]:
        if message.inward and message.number == 1:
            met.append(message)
            started.get(timeout=30).kill()
            raise Cut
        return [message.data]

    def work(rank: int) -> Any:
        return timed(lambda: member(rank, 2, port, BEFORE if rank else "127.0.0.1").barrier(timeout=60))

    with Proxy((BEFORE, port), ("127.0.0.1", port), edit=edit), crew(2, work) as workers:
        started.put(workers[0])
        text, seconds = workers[1].result()
    assert met and text.startswith("CommunicatorError: rank 0 has gone away"), text
    assert seconds < AT_ONCE


# Several communicators, and none


@pytest.mark.parametrize("given", ["endpoints", "FLEETMETRICS_ENDPOINT"])
def test_all_communicators_of_a_process_share_a_port(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    for name in [name for name in os.environ if name.startswith(("PADDLE_", "FLEETMETRICS_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("FLEETMETRICS_SECRET", SECRET)
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "3")
    monkeypatch.setenv("PADDLE_TRAINER_ENDPOINTS", ",".join(f"127.0.0.1:{each}" for each in free_ports(3)))
    if given == "FLEETMETRICS_ENDPOINT":
        monkeypatch.setenv("FLEETMETRICS_ENDPOINT", f"127.0.0.1:{port}")

    def work(rank: int) -> Any:
        os.environ["PADDLE_TRAINER_ID"] = str(rank)
        three = [get_communicator(), SocketCommunicator(), SocketCommunicator()]
        found = [total(comm, 5) for comm in [*three, *reversed(three)]]
        opened = [os.readlink(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd") if _is_open(each)]
        (tmp_path / str(rank)).touch()
        for other in range(3):
            wait_for(tmp_path / str(other))
        return found, sum(each.startswith("socket:") for each in opened)

    found = run(3, work)
    assert [sums for sums, _ in found] == [[[6]] * 6] * 3
    assert [sockets for _, sockets in found] == [3, 1, 1]  # rank 0: two workers, and the door


def _is_open(descriptor: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{descriptor}")


def test_communicators_in_another_order_are_told_at_once_and_work_again(port: int) -> None:
    def work(rank: int) -> Any:
        one, other = member(rank, 3, port), member(rank, 3, port)
        one.barrier(timeout=20)
        order = (one, other) if rank < 2 else (other, one)
        found = [timed(lambda: comm.all_reduce([rank + 1], timeout=60).tolist()) for comm in order]  # noqa: B023
        return found if rank < 2 else found[::-1], [total(one), total(other)]

    found = run(3, work)
    for place in range(2):
        [text] = {each[place][0] for each, _ in found}
        assert text.startswith(
            "AgreementError: the workers disagree: exchange 2 (all_reduce) on channel 'own 1' on ranks 0, 1, "
            "exchange 1 (all_reduce) on channel 'own 2' on rank 2, and these wait for each other"
        )
    assert all(seconds < AT_ONCE for each, _ in found for _, seconds in each)
    assert [after for _, after in found] == [[[6], [6]]] * 3


def test_the_name_of_a_closed_channel_is_free_again(port: int) -> None:
    def work(rank: int) -> Any:
        member(rank, 2, port).barrier(timeout=20)  # which keeps rank 0 listening
        found = []
        for _ in range(3):
            with member(rank, 2, port, channel="a") as comm:
                found.append(total(comm))
                if rank == 1:
                    found.append(outcome(lambda: comm.barrier(timeout=0.2)))
        return found

    zero, one = run(2, work)
    assert zero == [[3]] * 3
    assert one[::2] == [[3]] * 3 and all("rank 0 has gone away" in text for text in one[1::2])


@pytest.mark.parametrize("number", [None, "", "1"])
def test_endpoints_of_several_trainers_without_their_number_are_an_error_and_not_a_local_value(
    monkeypatch: pytest.MonkeyPatch, number: str | None
) -> None:
    monkeypatch.setenv("PADDLE_TRAINER_ENDPOINTS", "10.0.0.1:80,10.0.0.2:80,10.0.0.3:80")
    monkeypatch.delenv("PADDLE_TRAINERS_NUM", raising=False)
    if number is not None:
        monkeypatch.setenv("PADDLE_TRAINERS_NUM", number)
    with pytest.raises(NoChannelError, match="PADDLE_TRAINER_ENDPOINTS names 3 workers, but PADDLE_TRAINERS_NUM is"):
        Job.from_environment()


# Who leaves in the middle


@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.parametrize("how", ["KeyboardInterrupt", "SystemExit"])
def test_an_interruption_inside_a_call_is_an_error_on_all_at_once(
    port: int, tmp_path: Path, who: int, how: str
) -> None:
    def work(rank: int) -> Any:
        if how == "SystemExit":
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
        comm = member(rank, 4, port)
        comm.barrier(timeout=20)
        (tmp_path / str(rank)).touch()
        if rank == 3:  # whom all wait for
            wait_for(tmp_path / "interrupted")
        return timed(lambda: comm.all_reduce([1], timeout=60).tolist())

    with crew(4, work) as workers:
        for rank in range(4):
            wait_for(tmp_path / str(rank))
        wait_until_it_sleeps(workers[who].pid)
        workers[who].kill(signal.SIGINT if how == "KeyboardInterrupt" else signal.SIGTERM)
        own = workers[who].result()
        (tmp_path / "interrupted").touch()
        others = [workers[rank].result() for rank in range(4) if rank != who]
    assert own[0].startswith(how)
    for text, seconds in others:
        assert text == f"CommunicatorError: rank {who} was interrupted ({how}) at exchange 2 (all_reduce)"
        assert seconds < AT_ONCE


@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.parametrize("kind", [TimeoutError, InterruptedError, BrokenPipeError, ZeroDivisionError])
def test_the_error_of_a_signal_handler_inside_a_call_is_not_changed(
    port: int, tmp_path: Path, who: int, kind: type[Exception]
) -> None:
    """Such as the TimeoutError of a decorator around an evaluation: no connection is lost, and the next call works."""

    def work(rank: int) -> Any:
        def handler(*_: object) -> None:
            raise kind("too long")

        comm = member(rank, 3, port)
        comm.all_reduce([1], timeout=20)  # with what it imports
        if rank == who:
            signal.signal(signal.SIGALRM, handler)
            signal.setitimer(signal.ITIMER_REAL, 0.3)
        if rank == 2:  # whom the others wait for
            wait_for(tmp_path / "interrupted")
        try:
            found: Any = timed(lambda: comm.all_reduce([1], timeout=60).tolist())
        except kind as error:
            found = repr(error)
        if rank == who:
            (tmp_path / "interrupted").touch()
        return found, total(comm)

    found = run(3, work)
    for rank, (first, after) in enumerate(found):
        if rank == who:
            first = [line for line in first[0].splitlines() if line][-1] if isinstance(first, tuple) else first
            assert first.startswith((f"{kind.__name__}: too long", f"{kind.__name__}('too long')")), first
        else:
            assert (
                first[0]
                == f"CommunicatorError: rank {who} was interrupted ({kind.__name__}) at exchange 2 (all_reduce)"
            )
            assert first[1] < AT_ONCE
        assert after == [6], found


@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.parametrize("inside", ["describe", "result_of"])
def test_the_error_of_a_signal_handler_is_the_users_own_whatever_it_interrupts(
    port: int, who: int, inside: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any other error in there is the trouble of a worker, or of a letter that cannot be read."""
    packed_or_read, hits = getattr(states, inside), []

    def work(rank: int) -> Any:
        def handler(*_: object) -> None:
            raise TimeoutError("too long")

        def interrupted(*given: Any) -> Any:
            if rank == who and not hits:
                hits.append(inside)
                signal.raise_signal(signal.SIGUSR2)
            return packed_or_read(*given)

        comm = member(rank, 2, port)
        comm.all_reduce([1], timeout=20)
        signal.signal(signal.SIGUSR2, handler)
        monkeypatch.setattr(states, inside, interrupted)
        found = outcome(lambda: comm.all_reduce([1], timeout=20).tolist())
        return found, total(comm), total(comm), len(hits)

    found = run(2, work)
    own, other = found[who], found[1 - who]
    assert own[0].endswith("TimeoutError: too long\n") and "CommunicatorError" not in own[0], own[0]
    parted = inside == "result_of"  # the other one has the result
    assert own[2:] == ([3], 1) and other[2:] == ([3], 0)
    assert "the workers diverged at exchange 2" in str(own[1]) if parted else own[1] == [3], own
    assert other[1] == own[1]
    told = f"CommunicatorError: rank {who} was interrupted (TimeoutError) at exchange 2 (all_reduce)"
    assert other[0] == ([2] if parted else told), other


@pytest.mark.parametrize("who", [0, 1])
def test_ctrl_c_at_any_moment_of_many_calls_is_reported_as_one_and_the_next_call_works(port: int, who: int) -> None:
    """In a tight loop it hits every part of a call."""

    def work(rank: int) -> Any:
        random.seed(7)
        comm = member(rank, 2, port)
        comm.all_reduce(np.zeros(500), timeout=20)  # with what it imports
        told, interrupted, over = [], 0, False
        if rank == who:
            signal.signal(signal.SIGALRM, signal.default_int_handler)
        while not over:
            try:
                if rank == who and interrupted < 60:
                    signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 4e-3))
                try:
                    while not over:
                        found = comm.all_reduce(np.full(500, int(rank == who and interrupted >= 60)), timeout=20)
                        over = bool(found[0])
                except FleetMetricsError as error:
                    told.append(f"{type(error).__name__}: {error}")
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:  # of the call, or of what sees to its error
                interrupted += 1
        return told

    found = run(2, work)
    allowed = rf"CommunicatorError: rank {who} was interrupted \(Keyboard.* at exchange|AgreementError: .* diverged at"
    for text in [text for texts in found for text in texts]:
        assert re.match(allowed, text), text
    assert found[1 - who]


def wait_until_it_sleeps(pid: int) -> None:
    """Wait until a process has done nothing for a while: it waits inside of its exchange.

    Args:
        pid: of the process, which has said that its call is the next that it does.
    """
    end, used, since = time.monotonic() + AT_ONCE, -1, 0.0
    while time.monotonic() < since + 0.1 or used < 0:
        assert time.monotonic() < end
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        switches = re.search(
            r"^voluntary_ctxt_switches:\s*(\d+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE
        )
        now = int(switches[1]) if switches else 0
        if now != used or fields[0] != "S":
            used, since = now, time.monotonic()
        time.sleep(0.005)


@pytest.mark.parametrize("who", [0, 1])
def test_a_forked_child_that_outlives_its_killed_worker_delays_no_worker(port: int, tmp_path: Path, who: int) -> None:
    def work(rank: int) -> Any:
        comm = member(rank, 3, port)
        comm.barrier(timeout=20)
        if rank == who:
            child = os.fork()  # as a pool's or a loader's: it keeps what is open
            if not child:
                with contextlib.suppress(AssertionError):
                    wait_for(tmp_path / "over")
                os._exit(0)
            (tmp_path / "child").write_text(str(child))
            (tmp_path / "forked").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        wait_for(tmp_path / "forked")
        return timed(lambda: comm.barrier(timeout=60))

    with crew(3, work) as workers:
        found = [workers[rank].result() for rank in range(3) if rank != who]
        assert Path("/proc", (tmp_path / "child").read_text()).exists()
        (tmp_path / "over").touch()
    for text, seconds in found:
        assert text.startswith(f"CommunicatorError: rank {who} has gone away"), text
        assert seconds < AT_ONCE


def wait_until_it_stops(pid: int) -> None:
    """Wait until no thread of a process goes on: a signal stops each when it is scheduled next."""
    end = time.monotonic() + AT_ONCE
    while any(path.read_text().rpartition(") ")[2][0] != "T" for path in Path(f"/proc/{pid}/task").glob("*/stat")):
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_stopped_rank_0_is_blamed_by_all(port: int, tmp_path: Path) -> None:
    def work(rank: int) -> Any:
        comm = member(rank, 4, port)
        comm.barrier(timeout=20)
        (tmp_path / f"ready {rank}").touch()
        if rank != 0:
            wait_for(tmp_path / "stopped")
        found = timed(lambda: comm.barrier(timeout=2))
        (tmp_path / f"over {rank}").touch()
        if rank != 0:
            wait_for(tmp_path / "continued")
        return *found, total(comm)

    with crew(4, work) as workers:
        wait_for(tmp_path / "ready 0")
        wait_until_it_sleeps(workers[0].pid)
        workers[0].kill(signal.SIGSTOP)
        wait_until_it_stops(workers[0].pid)
        (tmp_path / "stopped").touch()
        for rank in (1, 2, 3):
            wait_for(tmp_path / f"over {rank}")
        workers[0].kill(signal.SIGCONT)
        wait_for(tmp_path / "over 0")
        (tmp_path / "continued").touch()
        found = results(workers)
    assert len({text for text, *_ in found}) == 1, found
    assert found[0][0].startswith("DeadlineError: rank 0 did not answer within 2 s at exchange 2 (barrier)")
    assert all(seconds < 2 + SLACK for _, seconds, _ in found[1:])
    assert [after for *_, after in found] == [[10]] * 4


# More than one machine


def over_a_link(delay: float) -> Iterator[tuple[Proxy, list[Fork]]]:
    port = free_ports(1)[0]

    def work(rank: int) -> Any:
        comm = member(rank, 3, port, BEFORE, bind="" if rank else "127.0.0.1")
        found = [timed(lambda: comm.all_reduce([rank + 1], timeout=40).tolist()) for _ in range(2)]
        late = timed(lambda: comm.all_reduce([1], timeout=30 * delay).tolist())  # there and back
        return *found, late

    with Proxy((BEFORE, port), ("127.0.0.1", port), delay=delay), crew(3, work) as workers:
        yield workers


def test_links_of_200_ms_and_of_1_1_s_each_way_give_right_numbers() -> None:
    with contextlib.contextmanager(over_a_link)(0.2) as near, contextlib.contextmanager(over_a_link)(1.1) as far:
        for workers, delay in ((near, 0.2), (far, 1.1)):
            for first, second, late in results(workers):
                assert first[0] == second[0] == [6]
                assert late[0] == [3]
                assert second[1] < 2 * delay + 1 + SLACK


def _has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as sock:
        sock.bind(("::1", 0))
        return True
    return False


@pytest.mark.parametrize("host", ["127.0.0.2", "127.0.0.3", "localhost", "[::1]"])
def test_rank_0_listens_at_the_address_that_its_endpoint_names_and_at_no_other(
    port: int, tmp_path: Path, host: str
) -> None:
    if host == "[::1]" and not _has_ipv6():
        with pytest.raises(NoChannelError, match=r"rank 0 cannot listen .*::1"):
            total(SocketCommunicator(rank=0, world_size=2, endpoint=f"{host}:{port}", secret=SECRET))
        return

    def work(rank: int) -> Any:
        if rank:
            wait_for(tmp_path / "looked")
        return total(SocketCommunicator(rank=rank, world_size=2, endpoint=f"{host}:{port}", secret=SECRET))

    with crew(2, work) as workers:
        end = time.monotonic() + AT_ONCE
        while not _reached(host.strip("[]"), port):
            assert time.monotonic() < end
            time.sleep(0.005)
        assert not any(_reached(other, port) for other in ("127.0.0.4", "127.0.0.5") if other != host)
        (tmp_path / "looked").touch()
        assert results(workers) == [[3]] * 2


def _reached(host: str, port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection((host, port), 1).close()
        return True
    return False


def test_each_worker_behind_an_address_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    ports = free_ports(3)
    endpoints = ",".join(f"127.0.0.{rank + 1}:{each}" for rank, each in enumerate(ports))
    assert run(3, lambda rank: total(SocketCommunicator(Job(rank, 3, endpoints, secret=SECRET)))) == [[6]] * 3
