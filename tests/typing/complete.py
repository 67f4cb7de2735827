"""Whether editors and checkers know the types of what the package exports: the part of `make types` that counts.

Pyright verifies a package that is installed, so it is copied into an environment of its own for that long. What has no
declared type is named with its file and line.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STUBS = Path(__file__).resolve().parent / "stubs"
#: What derives from classes of Paddle, which .venv-dev does not have.
OF_PADDLE = ("fleetmetrics.integrations.hapi.",)


def verified(package: Path) -> dict:
    """What Pyright says of a package."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, system_site_packages=True)
        (packages,) = Path(folder, "lib").glob("python3*/site-packages")
        shutil.copytree(package, packages / package.name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(STUBS, packages, dirs_exist_ok=True)
        found = subprocess.run(
            [
                Path(sys.executable).with_name("basedpyright"),
                "--verifytypes",
                package.name,
                "--ignoreexternal",
                "--outputjson",
            ],
            cwd=folder,
            env={**os.environ, "VIRTUAL_ENV": folder, "PATH": f"{folder}/bin:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
        )
    return json.loads(found.stdout)["typeCompleteness"]


def untyped(report: dict) -> list[str]:
    """The names without a declared type, each with its place and the first line of what Pyright says of it.

    A class is as well known as its bases, private ones included.
    """
    said = []
    for symbol in report["symbols"]:
        known = symbol["isTypeKnown"] or symbol["name"].startswith(OF_PADDLE)
        for each in symbol["diagnostics"] if not known else ():
            if "docstring" not in each["message"]:
                _, _, file = each.get("file", "").rpartition("site-packages/")
                line = each.get("range", {}).get("start", {}).get("line", -1) + 1
                said.append(f"{file}:{line}: {symbol['name']}: {each['message'].splitlines()[0]}")
    return sorted(said)


def main() -> int:
    report = verified(ROOT / "fleetmetrics")
    print(f"{100 * report['completenessScore']:.1f} % of what the modules export has a declared type")
    wrong = untyped(report)
    if not wrong:
        return 0
    print(*wrong, sep="\n", file=sys.stderr)
    print("give each of these a type where it is first assigned, and run `make types` again", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
