"""Run a script that you cannot edit, or a launcher with one, with fleetmetrics behind its ``fleet.metrics``.

    python -m fleetmetrics.run train.py --epochs 2
    python -m fleetmetrics.run fleetrun --server_num=2 --worker_num=2 train.py --epochs 2
    python -m fleetmetrics.run -m paddle.distributed.launch --nproc_per_node=2 train.py --epochs 2

``--util`` as the first argument means ``patch_fleet(util=True)``: ``fleet.util.all_reduce`` then also covers all
workers. The exit status is that of the script; 2 if none can be started.

See `fleetmetrics.patch_fleet`.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__" and not __package__:
    # A launcher runs this file by its path, and its folder holds modules with names of Python's modules.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

import runpy
import zlib  # noqa: F401  # before Paddle, or SciPy crashes where zlib is a shared library
from typing import Sequence

from fleetmetrics.errors import FleetMetricsError
from fleetmetrics.integrations.patch import patch_fleet
from fleetmetrics.support.launcher import LAUNCHERS

_COMMANDS = {row.command: row.modules[0] for row in LAUNCHERS if row.command}
_MODULES = {name for row in LAUNCHERS for name in row.modules}


def main(arguments: Sequence[str]) -> None:
    """Run the script, the module after ``-m``, or the launcher, as Python would, with the arguments that follow."""
    util = list(arguments[:1]) == ["--util"]
    arguments = arguments[util:]
    if arguments and arguments[0] in ("-h", "--help"):
        print((__doc__ or "").replace("`", ""))
        return
    if not arguments or list(arguments) == ["-m"]:
        raise _refusal("name a script, -m and a module, or a launcher: python -m fleetmetrics.run train.py")
    is_module = arguments[0] == "-m"
    name, *own_arguments = arguments[is_module:]
    if os.path.basename(name) in _COMMANDS and not is_module:
        is_module, name = True, _COMMANDS[os.path.basename(name)]
    if is_module and name in _MODULES:
        own_arguments = _with_this_file(own_arguments, util)
    elif is_module or os.path.exists(name):
        try:
            patch_fleet(util=util)
        except FleetMetricsError as error:
            raise _refusal(str(error)) from None
    elif name.startswith("-"):
        raise _refusal(f"there is no option {name}; the only one of its own is --util, before the script")
    else:
        raise _refusal(f"there is no script {name!r} in {os.getcwd()}")
    sys.argv[:] = [name, *own_arguments]
    if is_module:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(name))
        runpy.run_path(name, run_name="__main__")


def _with_this_file(arguments: list[str], util: bool) -> list[str]:
    """A launcher's arguments with this file before the script, so that each process starts here."""
    for place, argument in enumerate(arguments):
        if argument.endswith(".py"):
            own = [os.path.abspath(__file__)]
            if util:
                own.append("--util")
            return [*arguments[:place], *own, *arguments[place:]]
    raise _refusal(f"none of the launcher's arguments is a script that ends in .py: {arguments}")


def _refusal(text: str) -> SystemExit:
    """Say why no script is started: with status 2, as Python's own, because 1 is that of a script that fails."""
    print(f"fleetmetrics.run: {text}", file=sys.stderr)
    return SystemExit(2)


if __name__ == "__main__":
    main(sys.argv[1:])
