"""The place of a process in its job, according to its launcher: the table is in `fleetmetrics.support.launcher`.

`place_of` finds the row whose variables give the number of workers. It also checks all other variables. One that names
more workers than that row is a contradiction; one that is unusable is an error, never a job of one worker.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, NamedTuple

from fleetmetrics.errors import InvalidInputError, NoChannelError
from fleetmetrics.support.launcher import LAUNCHERS, OTHERS, PADDLE, Environment, Launcher

__all__ = [
    "VARIABLES",
    "Place",
    "has_ended",
    "is_host",
    "parts_of",
    "place_of",
    "rank_told",
    "refuse_groups",
    "starter",
]

#: The address of rank 0 if all workers are on one machine.
_LOOPBACK = "127.0.0.1"
_SERVERS, _ENDPOINT, _MASTER = "PADDLE_PSERVERS_IP_PORT_LIST", "FLEETMETRICS_ENDPOINT", "MASTER_ADDR"
_RUN = "FLEETMETRICS_RUN"
#: They tell two runs apart, but as addresses do: people set the same ones again.
_ADDRESSES = frozenset({"MASTER_PORT", "HOROVOD_GLOO_RENDEZVOUS_ADDR"})
#: What the processes are called that start the workers of one run on a machine; Linux keeps 15 characters.
_STARTERS = ("hydra_", "jsrun", "mpiexec", "mpirun", "mpispawn", "orted", "pmi_proxy", "prte", "slurmstepd")
#: Paddle's own variables for the address of rank 0.
_WHERE = frozenset({"PADDLE_TRAINER_ENDPOINTS", "PADDLE_MASTER"})
#: Every variable that this module reads.
VARIABLES = frozenset({_SERVERS, _ENDPOINT, _RUN, *_WHERE}.union(*(row.variables for row in (*LAUNCHERS, OTHERS))))
#: The same in Python's storage: `os.environ` would decode every variable to list those that are set.
_AS_KEPT = {os.environ.encodekey(name): name for name in VARIABLES}


class Place(NamedTuple):
    """This process's place according to the environment."""

    rank: int = 0
    size: int = 1
    launcher: Launcher | None = None  # None if no variable mentions workers
    host: str = ""  # of rank 0, if Paddle's own variables do not name it
    run: str = ""  # what distinguishes this run
    named: bool = False  # whether `run` is a name, so that no other run has it
    variables: tuple[str, str] = ("", "")  # of the number of workers, and of the rank


_NO_LAUNCHER = Place()
#: A rank must fit into 4 bytes, and Python reads no number of thousands of digits.
_TOO_MANY_DIGITS = 10


class _Claim(NamedTuple):
    """The number of workers that a variable hints at."""

    workers: int
    variable: str
    words: str
    launcher: Launcher


def place_of(env: Mapping[str, str]) -> Place:
    """Find this process's place in the environment; an empty variable counts as unset.

    Raises:
        InvalidInputError: if a variable is malformed.
        NoChannelError: if the environment names several workers and is unusable, or contradicts itself.
    """
    set_names = _set_in(env)
    if not set_names:  # frequent: every compute of a single process calls this
        return _NO_LAUNCHER
    texts = {name: env[name].strip() for name in set_names}
    values = {name: text for name, text in texts.items() if text}
    rows = [row for row in (*LAUNCHERS, OTHERS) if row.started(values)]
    row = next((row for row in rows if _first(row.size, values)), None)
    size = 1 if row is None else _number(_first(row.size, values), values, 1)
    _refuse_contradictions(row, size, rows, values)
    if row is None:
        _refuse_unknown_number(rows, values)
        return Place()
    rank, variables = _rank_in(row, size, values), (_first(row.size, values), _first(row.rank, values))
    if size == 1:
        return Place(rank, size, row, variables=variables)
    # By the numbers alone: ranks differ, and all workers must reach the same conclusion.
    same = [row, *(other for other in rows if other is not row and _says(other, size, values))]
    host = "" if row is PADDLE and _WHERE.intersection(values) else _host_of(same, size, values)
    names = dict.fromkeys([*(name for other in same for name in other.run), _RUN])
    run = [f"{name}={values[name]}" for name in names if name in values]
    named = not _ADDRESSES.issuperset(names.keys() & values.keys())
    if not host and row is not PADDLE and _ENDPOINT not in values:
        raise _nowhere(row, values)
    if not run and host == _LOOPBACK:
        by, named = starter()
        run = [by]
    return Place(rank, size, row, host, "|".join([row.name, *run]), named, variables)


def _set_in(env: Mapping[str, str]) -> frozenset[str]:
    kept = getattr(env, "_data", None) if env is os.environ else None
    if not isinstance(kept, dict):
        return VARIABLES.intersection(env)
    return frozenset(_AS_KEPT[name] for name in _AS_KEPT.keys() & kept.keys())


def paddles_place(env: Mapping[str, str]) -> tuple[int, int]:
    """The rank and the number of workers by Paddle's variables alone, like its samplers and `paddle.Model`."""
    values = {name: env[name].strip() for name in PADDLE.rank + PADDLE.size if env.get(name, "").strip()}
    rank, size = _first(PADDLE.rank, values), _first(PADDLE.size, values)
    return _number(rank, values, 0) if rank else 0, _number(size, values, 1) if size else 1


def rank_told(env: Mapping[str, str]) -> int:
    """The rank that the environment names, unchecked; 0 without one."""
    for row in LAUNCHERS:
        text = next((env[name].strip() for name in row.rank if env.get(name, "").strip()), "")
        if text.isascii() and text.isdigit():
            return int(text)
    return 0


def parts_of(text: str) -> list[str]:
    """The entries of a list separated by commas, semicolons or blanks."""
    return [part for part in re.split(r"[,;\s]+", text) if part]


def is_host(text: str) -> bool:
    """Whether a string may be a name, or is an address."""
    if ":" not in text:
        return bool(re.fullmatch(r"[\w.-]+", text))
    import socket  # which a process alone does not need

    try:
        socket.inet_pton(socket.AF_INET6, text.partition("%")[0])
    except OSError:
        return False
    return True


def refuse_groups() -> None:
    """Raise `NoChannelError` if this process is one of several in a group of Paddle, torch or MPI. Imports nothing."""
    for name, words, workers in _GROUPS:
        size = 1
        if name in sys.modules:
            with contextlib.suppress(AttributeError):  # while another thread imports it
                size = workers(sys.modules[name])
        if isinstance(size, int) and size > 1:
            raise NoChannelError(
                f"{words.format(size)}, but the environment variable PADDLE_TRAINERS_NUM is not set (or is 1), so "
                "the other workers cannot be found, and the number would be local. Set PADDLE_TRAINERS_NUM and "
                f"PADDLE_TRAINER_ID, and {_ENDPOINT}=host:port (host of rank 0), on all of them, start through "
                "fleetrun, or call fleetmetrics.set_communicator; compute_local() gives the local value"
            )


def _fleets(module: Any) -> Any:
    count = getattr(getattr(getattr(module, "fleet", None), "_role_maker", None), "_worker_num", None)
    return count() if callable(count) else 1


def _torchs(module: Any) -> Any:
    return module.get_world_size() if module.is_available() and module.is_initialized() else 1


def _paddles(module: Any) -> Any:  # its get_world_size reads the environment
    return module.get_group().nranks if module.is_initialized() else 1


def _mpis(module: Any) -> Any:
    return module.COMM_WORLD.Get_size() if module.Is_initialized() and not module.Is_finalized() else 1


def _torchs_by_rpc(module: Any) -> Any:
    return len(module._get_current_rpc_agent().get_worker_infos()) if module._is_current_rpc_agent_set() else 1


def _paddles_by_rpc(module: Any) -> Any:
    return 1 if module._barrier_store is None else len(module.get_all_worker_infos())


_GROUPS: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ("paddle.distributed.fleet", "fleet was initialized with {} workers", _fleets),
    ("paddle.distributed", "paddle.distributed was initialized with {} workers", _paddles),
    ("paddle.distributed.rpc.rpc", "paddle.distributed.rpc was initialized with {} workers", _paddles_by_rpc),
    ("torch.distributed", "torch.distributed was initialized with {} workers", _torchs),
    ("torch.distributed.rpc.api", "torch.distributed.rpc was initialized with {} workers", _torchs_by_rpc),
    ("mpi4py.MPI", "MPI.COMM_WORLD of mpi4py has {} ranks", _mpis),
)


def _first(names: tuple[str, ...], values: Environment) -> str:
    return next((name for name in names if name in values), "")


def _number(name: str, values: Environment, lowest: int) -> int:
    text = values[name]
    digits = text.isascii() and text.isdigit() and len(text) < _TOO_MANY_DIGITS
    if not digits or int(text) < lowest:
        raise InvalidInputError(
            f"the environment variable {name} holds {text!r:.80}; it must be a whole number from {lowest}"
            f"{' of fewer digits' if len(text) >= _TOO_MANY_DIGITS else ''}"
        )
    return int(text)


def _least(name: str, values: Environment) -> int:
    """The number, or the first of a range such as 2:4."""
    return _number(name, {name: values[name].partition(":")[0]} if ":" in values[name] else values, 1)


def _most(name: str, values: Environment) -> int:
    """The last number of a range such as 1:4; 0 if the string is not a range."""
    last = values.get(name, "").rpartition(":")[2] if ":" in values.get(name, "") else ""
    return _number(name, {name: last}, 1) if last else 0


def _claims(row: Launcher, values: Environment) -> Iterator[_Claim]:
    """The numbers of workers that a launcher's variables give."""
    size, rank = _first(row.size, values), _first(row.rank, values)
    numbers = [name for name in (size, _first(row.local, values)) if name]
    counts = {name: _number(name, values, 1) for name in numbers}
    counts.update({name: _least(name, values) for name in row.least if name in values})
    counts.update({name: _named_in(values[name]) for name in row.lists if name in values})
    for name, workers in counts.items():
        yield _Claim(workers, name, f"{name} names {workers} workers", row)
    for name in [rank, *(name for name in row.hints if values.get(name, "").isdecimal())]:
        if name:
            number = _number(name, values, 0)
            yield _Claim(number + 1, name, f"{name} is {number}, so there are {number + 1} workers or more", row)


def _named_in(text: str) -> int:
    """The number of entries of a list; in JSON, such as TF_CONFIG, those of all inner lists but the servers'."""
    if text[:1] not in ("[", "{"):
        return len(parts_of(text))

    def counted(servers: Any) -> int:
        if isinstance(servers, dict):
            return sum(counted(entry) for name, entry in servers.items() if name != "ps")
        return len(servers) if isinstance(servers, list) else 0

    with contextlib.suppress(ValueError, RecursionError):
        return counted(json.loads(text))
    return len(parts_of(text))


def _refuse_contradictions(row: Launcher | None, size: int, rows: list[Launcher], values: Environment) -> None:
    """Raise if a variable names more workers than the job would have."""
    # A launcher that starts all processes of a job has started its servers, too.
    servers = len(parts_of(values.get(_SERVERS, ""))) if row is PADDLE else 0
    for other in rows:
        for claim in _claims(other, values):
            mine = row in (None, other) and claim.variable in other.rank
            later = mine or (row is None and claim.variable in other.hints)  # `_rank_in`, or that no number is there
            if claim.workers > size + servers and not later:
                raise _contradiction(claim, row or other, size, values)


def _contradiction(claim: _Claim, row: Launcher, size: int, values: Environment) -> NoChannelError:
    number, ours = _first(row.size, values), row if row.size else PADDLE
    stated = f"{number} is {size}" if number else f"{ours.size[0]} is not set"
    value = "local" if size == 1 else f"that of {size}"
    what = f"Start the workers through {_command(ours)}, or set {ours.size[0]} and {ours.rank[0]}"
    if number or row is OTHERS:
        what = f"Make them agree, or set {number or ours.size[0]}, {ours.rank[0]} and {_ENDPOINT}=host:port (of rank 0)"
    return NoChannelError(f"{claim.words}, but {stated}: the number would be {value}. {what}{_alone(claim.variable)}")


def _refuse_unknown_number(rows: list[Launcher], values: Environment) -> None:
    """Raise if variables mention several workers but none gives their number."""
    ranks = [name for row in rows for name in row.rank + row.hints if values.get(name, "-1") != "-1"]
    if _first(OTHERS.least + OTHERS.lists, values):  # it gives a number, which is one
        ranks = [name for name in ranks if name not in OTHERS.hints or values[name] != "0"]
    ranges = [name for row in rows for name in row.least if _most(name, values) > 1]
    for name in (*ranks, *ranges, _SERVERS, _ENDPOINT):
        if name in values:
            ours = next((row for row in rows if row.size and name in row.variables), PADDLE)
            what = f"{ours.size[0]} and {ours.rank[0]}"
            if name != _ENDPOINT:
                what = f"{ours.size[0]}, {ours.rank[0]} and {_ENDPOINT}=host:port (host of rank 0)"
            raise NoChannelError(
                f"{name} is {values[name]!r}, but the number of workers is unknown: the result would be local. Start "
                f"the workers through {_command(ours)}, or set {what} on all of them{_alone(name)}"
            )


def _rank_in(row: Launcher, size: int, values: Environment) -> int:
    name, number = _first(row.rank, values), _first(row.size, values)
    if not name:
        if size == 1:
            return 0
        raise _unusable(
            row, values, f"{row.rank[0]} is not set", f"Set it to the number of each worker, from 0 to {size - 1}"
        )
    rank = _number(name, values, 0)
    if rank >= size:
        raise InvalidInputError(
            f"{name} is {rank}, but {number} is {size}: ranks run from 0 to {size - 1}. Start the workers through "
            f"{_command(row)}, or set {number} and {name}"
        )
    return rank


def _says(row: Launcher, size: int, values: Environment) -> bool:
    """Whether a launcher names this number of workers."""
    name = _first(row.size, values)
    return bool(name) and _number(name, values, 1) == size


def _host_of(rows: list[Launcher], size: int, values: Environment) -> str:
    """The machine of rank 0 according to these launchers; a loopback address if there is no other machine."""
    nodes = [_first_node(name, values) for row in rows for name in [_first(row.nodes, values)] if name]
    together = [_first(row.local, values) for row in rows]
    if any(alone for _, alone in nodes) or any(name and _number(name, values, 1) == size for name in together):
        return _LOOPBACK
    # Under any launcher, a script may name rank 0's machine by torch's variable.
    named = next((name for row in rows for name in row.host if name in values), _MASTER)
    if named not in values:
        return next((host for host, _ in nodes), "")
    host = re.sub(r"^\[(.*)\]$", r"\1", values[named])
    if not is_host(host):
        raise InvalidInputError(
            f"the environment variable {named} holds {values[named]!r:.80}; it must be a host name or an address of "
            "rank 0's machine, without a port"
        )
    return host


def _first_node(name: str, values: Environment) -> tuple[str, bool]:
    """The first machine of a list such as ``node[01-04,7],gpu3``, and whether it is the only one."""
    text = values[name]
    entries = re.findall(r"(?:[^,\[\]]|\[[^\[\]]+\])+", text)
    if not entries or ",".join(entries) != text:
        raise InvalidInputError(
            f"the environment variable {name} holds {text!r}; it must be a list of machines such as node[01-04,7],gpu3"
        )
    ranges = re.findall(r"\[([^\]]*)\]", entries[0])
    alone = len(entries) == 1 and not any(re.search("[-,]", part) for part in ranges)
    return re.sub(r"\[([^\],-]*)[^\]]*\]", r"\1", entries[0]), alone


def _nowhere(row: Launcher, values: Environment) -> NoChannelError:
    here, missing = _first(row.local, values), [*row.host, *row.nodes[:1]]
    why = f"{missing[0]} is not set" if missing else "the machine of rank 0 is unknown"
    if here and not missing:
        why = f"{here} is {values[here]}, but the machine of rank 0 is unknown"
    return _unusable(row, values, why, f"Set {_ENDPOINT}=host:port (host of rank 0) on all of them")


def _unusable(row: Launcher, values: Environment, why: str, what: str) -> NoChannelError:
    number, engine = _first(row.size, values), ""
    if row.mpi:
        backend = "fleetmetrics.set_communicator(fleetmetrics.get_dist_backend('mpi4py'))"
        engine = f", or set FLEETMETRICS_ENGINE=mpi (in the program: {backend})"
    return NoChannelError(
        f"{number} says that {row.name} started {values[number]} processes, but {why}. {what}{engine}, or start them"
        f" through {_command(row)}{_alone(number)}"
    )


def _command(row: Launcher) -> str:
    """The command that starts workers with these variables."""
    return row.command or row.name


def _alone(variable: str) -> str:
    return f"; for a single process, unset {variable}, or call compute_local()"


def starter() -> tuple[str, bool]:
    """The process that has started the workers of this machine, and whether it is a launcher, which starts one run.

    A launcher is known by its name, which any user may read. Without one, it is the parent.
    """
    parent = process = os.getppid()
    with contextlib.suppress(OSError, IndexError):  # /proc is missing, or hides the processes of other users
        while process:
            name, fields = _status(process)
            if name.startswith(_STARTERS):
                return f"started by {name} {process} at {fields[19]}", True
            process = int(fields[1])
    with contextlib.suppress(OSError, IndexError):
        return f"started by {parent} at {_status(parent)[1][19]}", False
    return f"started by {parent}", False


def has_ended(process: int) -> bool:
    """Whether a process has ended, even if its parent has not taken note of it."""
    try:
        os.kill(process, 0)
        return _status(process)[1][0] in "ZX"
    except (OSError, IndexError) as error:
        return isinstance(error, ProcessLookupError)


def _status(process: int) -> tuple[str, list[str]]:
    """A process's name, and its fields after the name in Linux's table: 1 is the parent and 19 the start, in ticks."""
    text = Path(f"/proc/{process}/stat").read_text(errors="replace")
    return text[text.index("(") + 1 : text.rindex(")")], text.rpartition(")")[2].split()
