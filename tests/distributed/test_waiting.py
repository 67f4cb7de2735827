"""Waiting is visible, and each cause has a text of its own, among real processes."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Iterator

import pytest

from tests.distributed.cluster import AT_ONCE, SLACK, free_ports
from tests.distributed.forks import SECRET
from tests.distributed.programs import WORKER, Runs, Worker, places

pytestmark = [pytest.mark.distributed, pytest.mark.numpy_only]

#: Lines after half a second, and not after ten.
SOON = "from fleetmetrics.comm import channel; channel._LINES = (0.5, 1.0, 60.0)\n"


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    with Runs(tmp_path) as found:
        yield found


def said_by(workers: list[Worker]) -> list[list[str]]:
    return [worker.said() for worker in workers]


def waits(lines: list[str]) -> list[str]:
    """The lines that say whom a worker waits for."""
    return [line for line in lines if line.startswith("fleetmetrics: ")]


# -- a rank that ends, or is late


def test_a_rank_that_ends_without_calling_is_an_error_on_the_others_within_two_seconds(runs: Runs) -> None:
    """As in `if rank == 0: compute()`; the others have a metric, and hence a connection."""
    same = places(3, "collective")
    first = runs.start(0, **same[0], SECONDS="60", BEFORE_EACH="touch('calls')")
    others = [
        runs.start(rank, **same[rank], CALLS="0", AT_END="wait_for('calls'); time.sleep(1)", SECONDS="60")
        for rank in (1, 2)
    ]
    assert [worker.said() for worker in others] == [[], []]
    start = time.monotonic()
    [line] = first.said()
    assert time.monotonic() - start < 2 + SLACK
    assert line.startswith("CommunicatorError: rank"), line
    assert "ended without calling exchange 1 (Sum sum): every worker must make the same calls" in line, line
    assert "does only some ranks' code call this, as in `if rank == 0:`?" in line, line


def test_a_rank_that_ends_before_rank_0_listens_is_told_of_as_well(runs: Runs) -> None:
    same = places(2, "collective")
    patient = "wait_for('here'); from fleetmetrics.comm import client; client._SEE_OFF_SECONDS = 60.0"
    first = runs.start(0, **same[0], WHEN_IMPORTED="touch('here'); wait_for('ends'); time.sleep(0.3)", SECONDS="60")
    second = runs.start(1, **same[1], CALLS="0", WHEN_IMPORTED=patient, AT_END="touch('ends')")
    assert second.said() == []
    start = time.monotonic()
    [line] = first.said()
    assert time.monotonic() - start < 2 + SLACK
    assert "ended without calling exchange 1 (Sum sum): every worker must make the same calls" in line, line


def test_every_waiting_worker_says_who_is_missing_and_why(runs: Runs) -> None:
    same = places(4, "collective")
    late = "touch(os.environ['OWN']); wait_for('go')"
    workers = [
        runs.start(0, **same[0], WHEN_IMPORTED=SOON.replace("60.0", "2.0")),  # rank 2 may connect late
        runs.start(1, **same[1], WHEN_IMPORTED=SOON.replace("60.0", "2.0")),
        runs.start(2, **same[2], WHEN_MADE=late),  # it has connected, and called nothing
        runs.start(3, **same[3], WHEN_IMPORTED=late),  # it has not connected
    ]
    said: list[list[str]] = []
    for worker in workers[:2]:
        lines = [worker.line() or ""]
        while "rank 2 connected" not in lines[-1]:
            lines.append(worker.line() or "")
        said.append(lines)
    runs.touch("go")
    for lines in said:
        line = lines[-1]
        assert line.startswith("fleetmetrics: exchange 1 (Sum sum) waits. "), lines
        assert "Of the job's 4 workers (their number is that of PADDLE_TRAINERS_NUM)" in line, lines
        assert "rank 2 connected, but called nothing yet" in line, lines
        assert "rank 3 never connected; rank 0 listens at 127.0.0.1:" in line, lines
    assert [worker.said()[-1] for worker in workers] == ["value 6.0"] * 4


def test_a_worker_that_has_computed_less_is_named(runs: Runs) -> None:
    same = places(2, "collective")
    first = runs.start(0, **same[0], WHEN_IMPORTED=SOON, CALLS="2")
    second = runs.start(1, **same[1], CALLS="2", BEFORE_EACH="call and wait_for('go')")
    assert first.line() == "value 1.0"
    assert "rank 1 connected, but did not come to this call yet" in (first.line() or "")
    runs.touch("go")
    assert [first.said()[-1], second.said()[-1]] == ["value 1.0"] * 2


def test_a_worker_without_rank_0_says_where_it_has_looked_and_the_lines_have_no_end(runs: Runs) -> None:
    same = places(2, "endpoint")
    port = same[0]["FLEETMETRICS_ENDPOINT"]
    lines = runs.start(1, **same[1], WHEN_IMPORTED=SOON, SECONDS="4").said(waits=True)
    assert len(waits(lines)) == 2 and lines[-1].startswith("DeadlineError: rank 0 did not connect within 4 s"), lines
    for line in lines:
        assert f"Tried: {port} (Connection refused)" in line, lines
    assert "rank 0 of 2 workers (their number is that of PADDLE_TRAINERS_NUM) is not connected" in lines[0], lines


def test_a_program_with_a_logger_gets_the_lines_there(runs: Runs) -> None:
    logs = "import logging; logging.basicConfig(format='log: %(message)s')\n"
    lines = runs.start(1, **places(2, "endpoint")[1], WHEN_IMPORTED=logs + SOON, SECONDS="2").said(waits=True)
    assert any(line.startswith("log: fleetmetrics: exchange 1 (Sum sum) waits") for line in lines), lines
    assert not waits(lines)


# -- deadlines


@pytest.mark.parametrize(
    ("default", "before"),
    [("FIRST_TIMEOUT", ""), ("INTERACTIVE_TIMEOUT", "sys.ps1 = '>>> '\n"), ("DEFAULT_TIMEOUT", "")],
)
def test_each_default_deadline_holds_and_is_said(runs: Runs, default: str, before: str) -> None:
    """The first meeting, an interactive session, and a call once all have met."""
    same = places(2, "collective")
    patch = f"{before}from fleetmetrics.comm import channel; channel.{default} = 2.5\n"
    met = default == "DEFAULT_TIMEOUT"
    first = runs.start(0, **same[0], WHEN_IMPORTED=patch, SECONDS="", CALLS="2" if met else "1")
    runs.start(1, **same[1], SECONDS="30", BEFORE_EACH="" if met else "wait_for('go')", AT_END="wait_for('go')")
    lines = first.said()
    runs.touch("go")
    assert "did not" in lines[-1] and "within 2.5 s" in lines[-1], lines
    assert "the default is 300 s until all workers have met, then 1,800 s" in lines[-1], lines
    assert "and in an interactive session 60 s." in lines[-1], lines
    assert lines[:-1] == (["value 1.0"] if met else [])


# -- causes


@contextlib.contextmanager
def listener(says: bytes) -> Iterator[str]:
    """A process that is no rank 0 of this run, and greets each connection."""
    server = socket.create_server(("127.0.0.1", free_ports(1)[0]))
    kept = []

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                kept.append(server.accept()[0])
                if says:
                    kept[-1].sendall(says)

    threading.Thread(target=serve, daemon=True).start()
    with server:
        yield "{}:{}".format(*server.getsockname())


@pytest.mark.parametrize(
    ("says", "text"),
    [
        (b"", "it did not answer in time)."),  # as behind a firewall that drops
        (b"fleetmetrics 3\r\n" + bytes(100), "it speaks version 3 of the protocol, and this process version 4"),
        (b"HTTP/1.1 400 Bad Request\r\n", "it is not rank 0 of this job"),
    ],
)
def test_the_error_says_what_each_address_answered(runs: Runs, says: bytes, text: str) -> None:
    with listener(says) as where:
        place = {**places(2, "endpoint")[1], "FLEETMETRICS_ENDPOINT": where}
        [line] = runs.start(1, **place, SECONDS="4").said()
    assert f"Tried: {where} ({text}" in line, line
    assert ("FLEETMETRICS_ENDPOINT=host:port on all workers to a port that it lets in" in line) == (not says), line


def test_all_addresses_that_were_tried_are_named(runs: Runs) -> None:
    """As where a firewall lets only the trainers' own ports through."""
    place = places(2, "servers")[1]
    [line] = runs.start(1, **place, SECONDS="2").said()
    first, _ = place["PADDLE_TRAINER_ENDPOINTS"].split(",")
    assert f"Tried: {first} (Connection refused), 127.0.0.1:" in line and line.count("(Connection refused)") == 9, line


def test_another_version_is_named_by_rank_0_too(runs: Runs) -> None:
    same = places(2, "endpoint")
    host, port = same[0]["FLEETMETRICS_ENDPOINT"].split(":")
    first = runs.start(0, **same[0], SECONDS="4", WHEN_MADE="touch('made')")
    runs.wait_for("made")
    end = time.monotonic() + AT_ONCE
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1) as sock:
            sock.sendall(b"fleetmetrics 3\r\n" + bytes(200))
            break
        time.sleep(0.02)
    [line] = first.said()
    assert "A process that tried to connect cannot: it speaks version 3 of the protocol" in line, line
    assert "install the same fleetmetrics on all workers" in line, line


def test_rank_0_whose_name_is_a_loopback_address_on_several_machines_says_so_at_once(runs: Runs) -> None:
    """As Debian's hosts file makes it: 127.0.1.1 is this machine's own name."""
    hosts = "import socket; real = socket.getaddrinfo\n"
    hosts += "socket.getaddrinfo = lambda host, *a, **k: real('127.0.1.1' if host == 'node0' else host, *a, **k)\n"
    endpoints = {"PADDLE_TRAINER_ENDPOINTS": "node0:7001,node1:7001", "FLEETMETRICS_SECRET": SECRET}
    place = {"PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINER_ID": "0", **endpoints}
    start = time.monotonic()
    [line] = runs.start(0, **place, AT_START=hosts, SECONDS="60").said()
    assert time.monotonic() - start < AT_ONCE
    assert line.startswith("NoChannelError: rank 0 would listen on 127.0.1.1"), line
    assert "the name 'node0'" in line and "Set FLEETMETRICS_BIND" in line, line


@pytest.mark.parametrize("rank", [0, 1])
def test_leftover_variables_are_named_with_the_way_out(runs: Runs, rank: int) -> None:
    """As in a notebook whose shell still has those of an earlier job of torch's."""
    torch = {"WORLD_SIZE": "2", "RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_ports(1)[0])}
    notebook = f"sys.ps1 = '>>> '\n{SOON}channel.INTERACTIVE_TIMEOUT = 3.0\n"
    lines = runs.start(1, **torch, WHEN_IMPORTED=notebook, SECONDS="").said(waits=True)
    assert len(lines) == 3 and lines[-1].startswith("DeadlineError: "), lines
    way_out = "If this process belongs to no job of 2 workers, unset WORLD_SIZE and RANK, or call compute_local()"
    assert all(way_out in line for line in lines), lines
    assert "within 3 s" in lines[-1], lines


def test_a_communicator_more_on_one_rank_is_an_error_at_once_on_all(runs: Runs) -> None:
    """As where a notebook's cell was run again on one rank."""
    same = places(3, "collective")
    make = "comm = fm.SocketCommunicator()\n"
    use = "fm.set_communicator(comm)"
    start = time.monotonic()
    workers = [
        runs.start(rank, **place, WHEN_IMPORTED=make * (1 + (rank == 1)) + use, SECONDS="60")
        for rank, place in enumerate(same)
    ]
    said = [worker.said() for worker in workers]
    assert time.monotonic() - start < 30 + AT_ONCE
    assert said[0] == said[1] == said[2] and len(said[0]) == 1, said
    assert said[0][0].startswith("AgreementError: the workers disagree: exchange 1 (Sum sum) on channel"), said
    assert "'own 1' on ranks 0, 2" in said[0][0] and "'own 2' on rank 1" in said[0][0], said


def test_a_process_of_another_user_harms_no_job(runs: Runs, tmp_path: Path) -> None:
    """It has the job's variables, and no secret: its own user's is another one."""
    same = places(2, "collective")
    workers = [
        runs.start(rank, **place, CALLS="40", BEFORE_EACH="touch('on'); time.sleep(0.1)")
        for rank, place in enumerate(same)
    ]
    runs.wait_for("on")
    elsewhere = tmp_path / "of another user"
    elsewhere.mkdir()
    [line] = runs.start(500, [sys.executable, "-c", WORKER], **same[1], TMPDIR=str(elsewhere), SECONDS="20").said()
    assert line.startswith("AuthenticationError: "), line
    assert [worker.said() for worker in workers] == [["value 1.0"] * 40] * 2


def test_connections_ask_for_a_sign_of_life(runs: Runs) -> None:
    """Firewalls forget idle connections, and hosts lose their power."""
    show = "from fleetmetrics.comm import channel\n"
    show += "import socket\n"
    show += "[end] = channel._ends.values()\n"
    show += "sock = end._connection.sock if call is not None and metric and not hasattr(end, '_roster') else "
    show += "next(iter(end._roster.workers.values())).connection.sock\n"
    show += "options = [sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)]\n"
    show += "options += [sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in "
    show += "('TCP_KEEPIDLE', 'TCP_KEEPINTVL', 'TCP_KEEPCNT')]\n"
    show += "print(options, flush=True); touch(os.environ['OWN']); wait_for('over')"
    workers = [runs.start(rank, **place, AT_END=show) for rank, place in enumerate(places(2, "collective"))]
    for rank in range(2):
        runs.wait_for(f"{rank}")
    runs.touch("over")
    assert [worker.said() for worker in workers] == [["value 1.0", "[1, 60, 10, 6]"]] * 2


@pytest.mark.parametrize("rank", [0, 1])
def test_a_machine_that_does_not_answer_is_an_error_though_data_are_on_their_way(runs: Runs, rank: int) -> None:
    """As after a firewall has forgotten the connection, and a call has begun: the system sends again for long."""
    often = "from fleetmetrics.comm import message; message._KEEPALIVE = (1, 1, 1)"
    deaf = "\nif call == 1: message.Connection.silent = property(lambda self: True)"
    same = places(2, "collective")
    workers = [
        runs.start(own, **same[own], CALLS="2", SECONDS="60", WHEN_IMPORTED=often, **extra)
        for own in range(2)
        for extra in [{"BEFORE_EACH": deaf} if own == rank else {"BEFORE_EACH": "time.sleep(4 * call)"}]
    ]
    said = said_by(workers)
    assert [lines[0] for lines in said] == ["value 1.0"] * 2
    assert f"rank {1 - rank} has gone away: its machine has not answered for two minutes" in said[rank][1], said
    assert "has gone away" in said[1 - rank][1], said


# -- what the background connection costs


def test_a_process_that_belongs_to_no_job_of_several_imports_no_channel_for_its_metrics() -> None:
    code = "import sys, fleetmetrics; fleetmetrics.Sum(); print('fleetmetrics.comm.channel' in sys.modules)"
    clean = {"PYTHONPATH": ":".join(sys.path)}
    for place in ({}, {"PADDLE_TRAINER_ID": "0", "PADDLE_TRAINERS_NUM": "1"}, {"RANK": "0", "WORLD_SIZE": "1"}):
        done = subprocess.run([sys.executable, "-c", code], env={**clean, **place}, capture_output=True, text=True)
        assert done.stdout == "False\n", done


@pytest.mark.parametrize("does", ["import fleetmetrics", "import fleetmetrics; fleetmetrics.Sum"])
def test_an_import_connects_nothing(does: str) -> None:
    code = f"import sys, threading\n{does}\nprint(threading.active_count(), 'fleetmetrics.comm.channel' in sys.modules)"
    env = {"PYTHONPATH": ":".join(sys.path), **places(2, "collective")[0]}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout == "1 False\n", done
