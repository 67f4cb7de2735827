"""Hints can be read at run time, by those who make forms, command lines and documentation of them."""

from __future__ import annotations

import inspect
import sys
import typing
from types import ModuleType
from typing import Any, Iterator

import pytest

import fleetmetrics as fm
from fleetmetrics.base.metric import WithoutColumns
from fleetmetrics.support import typed
from tests.contract import CASES


def _of_class(kind: type) -> Iterator[Any]:
    """The class, and its functions, those of properties and of its bases included."""
    yield kind
    for name in dir(kind):
        found = inspect.getattr_static(kind, name)
        found = getattr(found, "__func__", getattr(found, "fget", found))
        if inspect.isfunction(found):
            yield found


def _public(module: ModuleType) -> Iterator[Any]:
    for name in getattr(module, "__all__", vars(module)) if module is not fm else dir(fm):
        found = getattr(module, name)
        if inspect.isclass(found):
            yield from _of_class(found)
        elif inspect.isfunction(found):
            yield found
        elif inspect.ismodule(found) and module is fm:
            yield from _public(found)


@pytest.mark.skipif(sys.version_info < (3, 10), reason="hints are written as Python 3.10 reads them: int | None")
def test_hints_of_everything_public_can_be_read():
    """On both versions of Paddle: `fleetmetrics.static` is public, too."""
    unread = {}
    for each in _public(fm):
        try:
            typing.get_type_hints(each)
        except Exception as error:
            unread[f"{each.__module__}.{each.__qualname__}"] = repr(error)
    assert not unread, f"import what these hints name at run time, not for type checkers alone: {unread}"


@pytest.mark.numpy_only
@pytest.mark.skipif(sys.version_info < (3, 11), reason="Unpack came with Python 3.11")
def test_settings_that_all_metrics_take_are_among_the_hints():
    (settings,) = typing.get_args(typing.get_type_hints(fm.AUC.__init__)["settings"])
    assert {"name", "validate", "buckets", "average", "bounds"} <= set(typing.get_type_hints(settings))


@pytest.mark.numpy_only
def test_an_older_python_reads_the_hint_inside():
    assert typed._Bare[int] is int


@pytest.mark.numpy_only
def test_checkers_know_what_add_takes_unless_the_metric_has_columns_of_its_own():
    """By `WithoutColumns`, or by an ``add`` of its own that says `NoColumns`."""
    metrics = {type(metric): metric for metric in (case.make() for case in CASES.values())}
    for kind, metric in metrics.items():
        if kind.__module__.startswith("fleetmetrics.metrics.") and kind is not fm.BitsPerByte:
            closed = issubclass(kind, WithoutColumns) or "NoColumns" in str(inspect.signature(kind.add))
            assert closed != bool(metric.columns), f"derive {kind.__name__} from WithoutColumns, or name its columns"
