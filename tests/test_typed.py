"""Hints can be read at run time, by those who make forms, command lines and documentation of them."""

from __future__ import annotations

import inspect
import sys
import typing

import pytest

import fleetmetrics as fm
from fleetmetrics import typed

pytestmark = pytest.mark.numpy_only


def _public() -> typing.Iterator[typing.Any]:
    for name in fm.__all__:
        found = getattr(fm, name)
        if inspect.isclass(found):
            yield found.__init__
            yield from (each for each in vars(found).values() if inspect.isfunction(each))
        elif inspect.isfunction(found):
            yield found


@pytest.mark.skipif(sys.version_info < (3, 10), reason="hints are written as Python 3.10 reads them: int | None")
def test_hints_of_everything_public_can_be_read():
    for each in _public():
        assert typing.get_type_hints(each) is not None, each.__qualname__


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Unpack came with Python 3.11")
def test_settings_that_all_metrics_take_are_among_the_hints():
    (settings,) = typing.get_args(typing.get_type_hints(fm.AUC.__init__)["settings"])
    assert {"name", "validate", "buckets", "average", "bounds"} <= set(typing.get_type_hints(settings))


def test_an_older_python_reads_the_hint_inside():
    assert typed._Bare[int] is int
