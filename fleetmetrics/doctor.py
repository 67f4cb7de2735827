"""``fleetmetrics.doctor()``, ``python -m fleetmetrics.doctor``: check that the workers reach each other."""

from __future__ import annotations

import contextlib
import gc
import importlib.metadata
import os
import platform
import re
import runpy
import socket
import subprocess
import sys
import threading
import time
import types
from typing import Iterator

import numpy as np

from fleetmetrics._version import __version__
from fleetmetrics.base.accumulator import Accumulator
from fleetmetrics.comm import Communicator, LocalCommunicator, choose, get_communicator
from fleetmetrics.comm.deadline import resolve_timeout
from fleetmetrics.comm.failures import by_rank, readable
from fleetmetrics.comm.job import UNNAMED, Job
from fleetmetrics.comm.launchers import VARIABLES, place_of
from fleetmetrics.errors import (
    DeadlineError,
    FleetMetricsError,
    ServerProcessError,
    UnauthenticatedWarning,
    UnnamedRunWarning,
)
from fleetmetrics.samplers.dealing import Dealing, epoch_under_way
from fleetmetrics.support.checks import knows_its_arguments
from fleetmetrics.support.environment import SETTINGS, setting
from fleetmetrics.support.hints import did_you_mean, near
from fleetmetrics.support.launcher import other_role
from fleetmetrics.support.vocabulary import counted
from fleetmetrics.support.warning import muted

__all__ = ["doctor"]

_SHOWN = re.compile(rf"PADDLE_|TRAINING_ROLE$|POD_|FLEETMETRICS_|FLAGS_enable_pir|({'|'.join(sorted(VARIABLES))})$")
_HIDDEN = re.compile("SECRET|TOKEN|PASS|KEY|CREDENTIAL")


@knows_its_arguments
def doctor(*, timeout: float = 30.0) -> bool:
    """Print the job as this worker sees it, try an exchange with the others, and list what to fix.

    Call it on every worker. It prints versions and Paddle's mode, the launcher's variables (without the values of
    secrets), the channel and engine in use and why, the time of an exchange, differences between workers, and
    the metrics of this process that got samples without their sampler, if a sampler repeats some.
    In a parameter server, and in other processes that compute nothing, it checks only the settings.

    Args:
        timeout: seconds to wait for the other workers.

    Returns:
        True if there is nothing to fix.

    Examples:
        >>> import fleetmetrics
        >>> fleetmetrics.doctor()  # doctest: +ELLIPSIS
        fleetmetrics ...
        nothing to fix
        True
    """
    to_fix: list[str] = []
    facts = {"fleetmetrics": __version__, "Python": platform.python_version(), "NumPy": np.__version__}
    facts["Paddle"] = _paddle(to_fix)
    print(", ".join(f"{name} {fact}" for name, fact in facts.items()))
    print(f"environment: {_environment() or 'no launcher'}")
    _look_at_settings(to_fix)
    end = "nothing to fix"
    try:
        with muted(UnauthenticatedWarning, UnnamedRunWarning):
            channel = get_communicator()
            where = f"{type(channel).__name__}, rank {channel.rank} of {channel.world_size}"
            print(f"channel: {where}: {_why(channel, to_fix)}", flush=True)
            if not _lost(channel, timeout, to_fix):
                print(f"exchange: {_exchange(channel, facts, timeout, to_fix)}")
        for line in _padding(to_fix):
            print(f"padding: {line}", flush=True)
    except ServerProcessError:
        end = f"this is {other_role(os.environ)}; nothing to fix"
    except (FleetMetricsError, ImportError) as error:
        _add(to_fix, error)
        if isinstance(error, DeadlineError):
            to_fix.append("call doctor() on every worker; if all do, check that they reach the address of rank 0")
    print("\n".join(f"to fix: {advice}" for advice in to_fix) or end, flush=True)
    return not to_fix


def _padding(to_fix: list[str]) -> Iterator[str]:
    """The metrics of this process that got samples without a sampler, if a sampler repeats some.

    Those to fix got exactly what such a sampler deals this worker.
    """
    objects = gc.get_objects()
    untold = [metric for metric in objects if issubclass(type(metric), Accumulator) and "_pass" in vars(metric)]
    untold = [
        metric for metric in untold if not metric._pass.counts and not metric._pass.handled and metric._pass.done > 0
    ]
    names = ", ".join(sorted({metric.name_in_errors() for metric in untold}))
    lines = set()
    for sampler in (candidate for candidate in objects if names and type(candidate).__name__.endswith("Sampler")):
        with contextlib.suppress(Exception):  # a sampler whose dealing is unknown
            dealing = Dealing(sampler, epoch_under_way(sampler))
            dealt = sum(map(dealing.dealt.count, range(dealing.ranks)))
            if dealt > dealing.dealt.distinct:
                lines.add(
                    f"{type(sampler).__name__} assigns {dealt:,} samples to {dealing.ranks} workers, of which "
                    f"{dealing.dealt.distinct:,} are distinct. {names}: without a sampler, repeated samples count "
                    "again unless a mask removes them; create it with sampler="
                )
                due = dealing.dealt.count(dealing.rank(None))
                counting = sorted({metric.name_in_errors() for metric in untold if metric._pass.done == due})
                to_fix.extend(f"create {name} with sampler=: it counts repeated samples again" for name in counting)
    yield from sorted(lines)


def _add(to_fix: list[str], error: Exception) -> None:
    text = f"{type(error).__name__}: {error}"
    if text not in to_fix:  # reading the setting reports it, too
        to_fix.append(text)


def _look_at_settings(to_fix: list[str]) -> None:
    """Read every setting as the package does, and look for unknown names."""
    for name in sorted(name for name in os.environ if name.upper().startswith("FLEETMETRICS")):
        if name not in SETTINGS:
            to_fix.append(f"there is no setting {name}{did_you_mean(near(name, SETTINGS, 0))}")
    for name in SETTINGS:
        try:
            resolve_timeout() if name == "FLEETMETRICS_TIMEOUT" else setting(name)
        except FleetMetricsError as error:
            _add(to_fix, error)


def _installed(package: str) -> str:
    """The version of a package, "" if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _paddle(to_fix: list[str]) -> str:
    """Paddle's version and mode; add conflicts to the list of things to fix."""
    numpy, protobuf = _installed("numpy"), _installed("protobuf")
    version = _installed("paddlepaddle") or _installed("paddlepaddle-gpu")
    if version.startswith("2.") and not (numpy.startswith("1.") and protobuf.startswith(("3.", "4."))):
        to_fix.append(
            f"Paddle {version} with NumPy {numpy} and protobuf {protobuf}: pip install 'numpy<2' 'protobuf<5'"
        )
    paddle = sys.modules.get("paddle")
    if paddle is not None:
        if paddle.in_dynamic_mode():
            return f"{paddle.__version__} in dynamic mode"
        pir = getattr(paddle.framework, "in_pir_mode", bool)()
        return f"{paddle.__version__} in static mode, {'PIR' if pir else 'legacy graph'}"
    if not version:
        return "is not installed"
    try:  # in a separate process, because it may abort
        subprocess.run([sys.executable, "-c", "import paddle"], capture_output=True, timeout=60, check=True)
    except subprocess.SubprocessError as error:
        complaint = (getattr(error, "stderr", b"") or b"").decode(errors="replace").strip().rpartition("\n")[2]
        to_fix.append(f"`import paddle` fails: {complaint or error}")
    return f"{version}, not imported here"


def _environment() -> str:
    shown = {name: re.sub("//[^/@]*@", "//(hidden)@", os.environ[name]) for name in filter(_SHOWN.match, os.environ)}
    return ", ".join(
        f"{variable}={'(hidden)' if _HIDDEN.search(variable) else shown[variable]}" for variable in sorted(shown)
    )


def _why(channel: Communicator, to_fix: list[str]) -> str:
    """The reason for this channel, and its facts."""
    if choose._chosen is not None:
        return "the program has called set_communicator"
    if isinstance(channel, LocalCommunicator):
        return "the environment names one worker"
    if not channel.authenticated:
        to_fix.append(
            "any process that reaches rank 0's port can pass for a worker: set the same FLEETMETRICS_SECRET on all"
        )
    if setting("FLEETMETRICS_ENGINE"):
        return "FLEETMETRICS_ENGINE is mpi"
    job = Job.from_environment()
    if not job.named:
        to_fix.append(f"nothing names this run: {UNNAMED}")
    host, port = job.candidates()[0]
    proved = "all prove that they know the job's secret" if channel.authenticated else "no proof of identity"
    launcher = place_of(os.environ).launcher
    by = f", of {launcher.name}" if launcher is not None else ""
    run = f"the run is {job.run_name or 'named by its endpoints'}" if job.named else "nothing names the run"
    where = f"rank 0 listens on {host}:{port}"
    return f"several workers in the environment{by}; {run}; engine: sockets, {where}; {proved}"


def _lost(channel: Communicator, timeout: float, to_fix: list[str]) -> bool:
    """Whether rank 0 has no address here, so that no worker would reach an exchange."""
    if choose._chosen is not None or isinstance(channel, LocalCommunicator) or setting("FLEETMETRICS_ENGINE"):
        return False
    job = Job.from_environment()
    binds = bool(job.rank == 0 and job.bind)
    host = job.bind if binds else job.candidates()[0][0]
    losses: list[str] = []

    def resolve() -> None:
        try:
            socket.getaddrinfo(host, None)
            losses.append("")
        except OSError as error:
            losses.append(str(error))

    thread = threading.Thread(target=resolve, daemon=True)  # a name server that does not answer would block it
    thread.start()
    thread.join(timeout)
    why = losses[0] if losses else f"no answer within {timeout:g} s"
    if why:
        whose = "FLEETMETRICS_BIND" if binds else "the host of rank 0"
        to_fix.append(f"{whose} is {host!r}, which cannot be resolved on this machine: {why}")
    return bool(why)


def _exchange(channel: Communicator, facts: dict[str, str], timeout: float, to_fix: list[str]) -> str:
    """Try the channel, and find differences between the workers."""
    everybodys = channel.all_gather_object(facts, timeout=timeout)
    for name in facts:
        if len({everybody[name] for everybody in everybodys}) > 1:
            to_fix.append(
                readable(f"the workers differ in {name}: {by_rank(everybody[name] for everybody in everybodys)}")
            )
    start = time.monotonic()
    total = int(channel.all_reduce([1], timeout=timeout)[0])
    workers = counted(total, "workers")
    return f"{workers}, {1000 * (time.monotonic() - start):.1f} ms"


if __name__ == "__main__":
    sys.argv[1:] = ["doctor"]
    runpy.run_module("fleetmetrics", run_name="__main__")  # with the exit status of ``fleetmetrics doctor``
# ``fleetmetrics.doctor`` is this module after an import of it, otherwise the function; both can be called.
_calls = {"__call__": lambda self, **options: doctor(**options)}
sys.modules[__name__].__class__ = type("Doctor", (types.ModuleType,), _calls)
