"""A process that a nursery stands for: instead of importing what a script needs, Python has the script forked.

Each Python of a job begins with this: it imports little.
"""

from __future__ import annotations

import os
import socket
import sys

ADDRESS, SCRIPTS = "NURSERY_ADDRESS", "NURSERY_SCRIPTS"
#: The descriptor at which a shell holds the connection, and what it runs. A Python that waits here, with the variables
#: of a worker, would claim to be the worker that the child is.
_HELD = 3
_WAITS = f"""
read -r child <&{_HELD}
read -r status <&{_HELD}
[ "${{status:-1}}" -lt 0 ] && kill "$status" $$
exit "${{status:-1}}"
"""


def stand_in() -> None:
    """If this process was started for one of the scripts: have it forked, and become a shell that ends as it does."""
    command = [each for each in sys.orig_argv[1:] if each != "-u"]
    name = command[command[0] == "-m"] if command else ""
    if os.path.basename(name) in os.environ.get(SCRIPTS, "").split(os.pathsep):
        _become(os.environ[ADDRESS], command)


def _become(address: str, command: list[str]) -> None:
    connection = asked(address, command, os.getcwd(), [0, 1, 2], dict(os.environ))
    os.dup2(connection.fileno(), _HELD)
    os.set_inheritable(_HELD, True)
    os.execv("/bin/sh", ["sh", "-c", _WAITS])


def asked(
    address: str, command: list[str], directory: str, files: list[int], env: dict[str, str] | None
) -> socket.socket:
    """Ask a nursery for a child; it tells the connection the process, and at the end the status.

    See `tests.nursery.Child`.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(f"\0{address}")
    order = {"command": command, "directory": directory, "env": env}
    socket.send_fds(connection, [repr(order).encode() + b"\n"], files)
    return connection
