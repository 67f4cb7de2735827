"""Fuzz what peers may send with atheris, which looks for inputs that reach new lines of the channel.

    make fuzz FUZZ_SECONDS=600

It is a program, and no test. The first argument names a function of `hostile.py`, the others are libFuzzer's.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # atheris is not installed where the tests run, which collect this file for its examples
    import atheris

    with atheris.instrument_imports(include=["fleetmetrics"]):
        from tests.fuzz import hostile

    target = {each.__name__: each for each in hostile.TARGETS}[sys.argv.pop(1)]
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()
