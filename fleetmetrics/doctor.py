"""``fleetmetrics.doctor()``, ``python -m fleetmetrics.doctor``: whether the workers reach each other, and why not."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import time
import types
from importlib.metadata import distributions

import numpy as np

from fleetmetrics._version import __version__
from fleetmetrics.comm import Communicator, LocalCommunicator, choose, get_communicator
from fleetmetrics.comm.failures import by_rank
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.launchers import VARIABLES
from fleetmetrics.errors import DeadlineError, FleetMetricsError, UnauthenticatedWarning, muted

__all__ = ["doctor"]

_SHOWN = re.compile(rf"PADDLE_|TRAINING_ROLE$|POD_|FLEETMETRICS_|FLAGS_enable_pir|({'|'.join(sorted(VARIABLES))})$")
_HIDDEN = re.compile("SECRET|TOKEN|PASS|KEY|CREDENTIAL")


def doctor(*, timeout: float = 30.0) -> bool:
    """Print what this worker knows of its job, try an exchange with the others, and say what to fix.

    Call it on every worker. It prints versions and Paddle's mode, what the launcher has set (of secrets, only that
    they are there), which channel and engine are used and why, how long an exchange takes, and where workers differ.

    Args:
        timeout: seconds to wait for the other workers.

    Returns:
        Whether there is nothing to fix.

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
    print(f"environment: {_environment() or 'nothing of a launcher'}")
    try:
        with muted(UnauthenticatedWarning):
            channel = get_communicator()
            where = f"{type(channel).__name__}, rank {channel.rank} of {channel.world_size}"
            print(f"channel: {where}: {_why(channel, to_fix)}", flush=True)
            print(f"exchange: {_exchange(channel, facts, timeout, to_fix)}")
    except (FleetMetricsError, ImportError) as error:
        to_fix.append(f"{type(error).__name__}: {error}")
        if isinstance(error, DeadlineError):
            to_fix.append("call doctor() on every worker; if all do, see whether they reach the address of rank 0")
    print("\n".join(f"to fix: {each}" for each in to_fix) or "nothing to fix", flush=True)
    return not to_fix


def _paddle(to_fix: list[str]) -> str:
    """Paddle's version and mode; what cannot work with it is added to what is to be fixed."""
    versions = {each.metadata["Name"]: each.version for each in distributions()}
    numpy, protobuf = versions.get("numpy", ""), versions.get("protobuf", "")
    found = versions.get("paddlepaddle") or versions.get("paddlepaddle-gpu") or ""
    if found.startswith("2.") and not (numpy.startswith("1.") and protobuf.startswith(("3.", "4."))):
        to_fix.append(f"Paddle {found} with NumPy {numpy} and protobuf {protobuf}: pip install 'numpy<2' 'protobuf<5'")
    paddle = sys.modules.get("paddle")
    if paddle is not None:
        pir = getattr(paddle.framework, "in_pir_mode", bool)()
        mode = "dynamic mode" if paddle.in_dynamic_mode() else f"static mode, {'PIR' if pir else 'legacy graph'}"
        return f"{paddle.__version__} in {mode}"
    if not found:
        return "is not installed"
    try:  # in a process of its own: it may abort
        subprocess.run([sys.executable, "-c", "import paddle"], capture_output=True, timeout=60, check=True)
    except subprocess.SubprocessError as error:
        said = (getattr(error, "stderr", b"") or b"").decode(errors="replace").strip().rpartition("\n")[2]
        to_fix.append(f"`import paddle` fails: {said or error}")
    return f"{found}, not imported here"


def _environment() -> str:
    shown = {name: re.sub("//[^/@]*@", "//(hidden)@", os.environ[name]) for name in filter(_SHOWN.match, os.environ)}
    return ", ".join(f"{each}={'(hidden)' if _HIDDEN.search(each) else shown[each]}" for each in sorted(shown))


def _why(channel: Communicator, to_fix: list[str]) -> str:
    """Why it is this channel, and what is known of it."""
    if choose._chosen is not None:
        return "the program has called set_communicator"
    if isinstance(channel, LocalCommunicator):
        return "the environment names one worker"
    if not channel.authenticated:
        to_fix.append("whoever reaches rank 0's port may pass for a worker: set FLEETMETRICS_SECRET alike on all")
    if "FLEETMETRICS_ENGINE" in os.environ:
        return f"FLEETMETRICS_ENGINE is {os.environ['FLEETMETRICS_ENGINE']}"
    host, port = Job.from_environment().candidates()[0]
    proved = "all prove that they know the job's secret" if channel.authenticated else "nobody proves anything"
    return f"several workers in the environment; engine: sockets, rank 0 listens on {host}:{port}; {proved}"


def _exchange(channel: Communicator, facts: dict[str, str], timeout: float, to_fix: list[str]) -> str:
    """Try the channel, and look where the workers differ."""
    everybodys = channel.all_gather_object(facts, timeout=timeout)
    for name in facts:
        if len({each[name] for each in everybodys}) > 1:
            to_fix.append(f"the workers differ in {name}: {by_rank(each[name] for each in everybodys)}")
    start = time.monotonic()
    total = int(channel.all_reduce([1], timeout=timeout)[0])
    return f"{total} worker{'s' * (total > 1)}, {1000 * (time.monotonic() - start):.1f} ms"


if __name__ == "__main__":
    sys.exit(not doctor())
# ``fleetmetrics.doctor`` is this module where somebody has imported it, else the function: both can be called.
_calls = {"__call__": lambda self, **options: doctor(**options)}
sys.modules[__name__].__class__ = type("Doctor", (types.ModuleType,), _calls)
