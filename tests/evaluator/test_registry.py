"""The registry, as MMEngine's."""

from __future__ import annotations

import warnings
from typing import Any, Iterator

import pytest

import fleetmetrics as fm
from fleetmetrics.evaluator import (
    METRICS,
    Accuracy,
    DumpResults,
    Evaluator,
    MultiLabelMetric,
    RetrievalRecall,
    SingleLabelMetric,
)
from fleetmetrics.evaluator.registry import Registry
from tests.evaluator.metrics_of_the_tests import Seen


class Square:
    def __init__(self, side: int = 1) -> None:
        self.side = side


@pytest.fixture
def shapes() -> Registry:
    registry = Registry("shape")
    registry.register_module(module=Square)
    return registry


def test_it_builds_registered_classes(shapes: Registry) -> None:
    config = dict(type="Square", side=3)
    assert shapes.build(config).side == 3
    assert config == dict(type="Square", side=3)
    assert shapes.build(dict(type=Square)).side == 1
    assert shapes.build(dict(type="Square", side=4, _scope_="mmpretrain")).side == 4
    shapes.register_module(name="doubled", module=lambda x: 2 * x)
    assert shapes.build(dict(type="doubled", x=4)) == 8


def test_a_registry_lists_its_entries(shapes: Registry) -> None:
    assert (shapes.name, len(shapes), shapes.module_dict) == ("shape", 1, {"Square": Square})
    assert "Square" in shapes and "Cube" not in shapes
    assert shapes.get("Square") is Square
    assert shapes.get("Cube") is None
    assert "Square" in repr(shapes) and "shape" in repr(shapes)
    with pytest.raises(TypeError, match=r"The key argument of `Registry.get` must be a str, got <class 'int'>"):
        shapes.get(3)  # type: ignore[arg-type]


def test_it_registers_as_a_decorator_and_directly(shapes: Registry) -> None:
    @shapes.register_module()
    class Circle:
        pass

    assert shapes.get("Circle") is Circle

    @shapes.register_module("disc")
    class Disc:
        pass

    assert shapes.get("disc") is Disc and "Disc" not in shapes
    assert shapes.register_module(["a", "b"])(Circle) is Circle
    assert shapes.register_module(name=("c", "d"), module=Circle) is Circle
    assert all(shapes.get(name) is Circle for name in "abcd")


def test_a_name_is_taken_once(shapes: Registry) -> None:
    class Other:
        pass

    where = f"'Square is already registered in shape at {__name__}'"
    for register in (
        lambda: shapes.register_module(module=Square),
        lambda: shapes.register_module("Square")(Other),
        lambda: shapes.register_module(name="Square", module=Other),
    ):
        with pytest.raises(KeyError) as error:
            register()
        assert str(error.value) == where
    shapes.register_module("Square", force=True)(Other)
    assert shapes.get("Square") is Other


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"force": 1}, "force must be a boolean, but got <class 'int'>"),
        ({"name": 3}, "name must be None, an instance of str, or a sequence of str, but got <class 'int'>"),
        ({"name": ["a", 3]}, "name must be None, an instance of str, or a sequence of str, but got <class 'list'>"),
        ({"name": Square}, "name must be None, an instance of str, or a sequence of str, but got <class 'type'>"),
        ({"module": 3}, "module must be Callable, but got <class 'int'>"),
    ],
)
def test_wrong_arguments_of_register_module(shapes: Registry, arguments: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        shapes.register_module(**arguments)
    assert len(shapes) == 1


@pytest.mark.parametrize(
    ("config", "kind", "text"),
    [
        ("Square", TypeError, "cfg should be a dict, ConfigDict or Config, but got <class 'str'>"),
        ({"side": 3}, KeyError, '`cfg` or `default_args` must contain the key "type", but got {'),
        ({"type": 3}, TypeError, "type must be a str or valid type, but got <class 'int'>"),
        ({"type": "Square", "sides": 3}, TypeError, "unexpected keyword argument 'sides'"),
    ],
)
def test_wrong_configurations(shapes: Registry, config: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        shapes.build(config)


def test_an_unknown_name_is_a_key_error_that_lists_the_known_ones(shapes: Registry) -> None:
    shapes.register_module(name="Circle", module=Square)
    with pytest.raises(KeyError) as error:
        shapes.build(dict(type="Squar"))
    assert isinstance(error.value, fm.UnknownNameError)
    assert str(error.value) == (
        "Squar is not in the shape registry. Please check whether the value of `Squar` is correct or it was registered"
        " as expected; did you mean 'Square'? Known are: Circle, Square"
    )


def test_the_metrics_of_the_package_are_there() -> None:
    assert METRICS.name == "metric"
    assert "DumpResults" in METRICS and "Accuracy" in METRICS and len(METRICS) > 7


# -- scopes ----------------------------------------------------------------------------------------------


def test_names_with_the_scope_of_mmengine_and_mmpretrain_are_known() -> None:
    assert isinstance(METRICS.build(dict(type="mmpretrain.Accuracy", topk=2)), Accuracy)
    assert isinstance(METRICS.build(dict(type="mmpretrain.evaluation.Accuracy")), Accuracy)
    assert isinstance(METRICS.build(dict(type="mmengine.DumpResults", out_file_path="a.pkl")), DumpResults)
    assert isinstance(METRICS.build(dict(type="Accuracy", _scope_="mmpretrain")), Accuracy)
    for name in ("mmpretrain.DumpResults", "mmengine.Accuracy", "mmdet.Accuracy", "mmpretrain.VQAAcc"):
        with pytest.raises(fm.UnknownNameError, match=f"{name} is not in the metric registry.*Known are: Accuracy, "):
            METRICS.build(dict(type=name))


@pytest.fixture
def own() -> Iterator[dict[str, Any]]:
    """The names that a test registers are forgotten afterwards."""
    yield METRICS.module_dict
    METRICS.module_dict.clear()


def test_a_class_may_have_the_name_of_one_of_the_packages(own: dict[str, Any]) -> None:
    """MMEngine's and MMPretrain's registries are two; a user's metric lies in one of them, or in a third."""
    with pytest.warns(
        UserWarning,
        match=f"Accuracy in the metric registry now refers to the class of {__name__} instead of",
    ):

        @METRICS.register_module()
        class Accuracy(Square):
            pass

    assert type(METRICS.build(dict(type="Accuracy"))) is Accuracy
    assert type(METRICS.build(dict(type="mmpretrain.Accuracy"))) is not Accuracy
    assert type(Evaluator(dict(type="Accuracy", _scope_="mmpretrain")).metrics[0]) is not Accuracy
    with pytest.raises(KeyError, match="already registered"):
        METRICS.register_module("Accuracy", module=Square)


@pytest.mark.parametrize("scope", ["mmpretrain", "mmengine", "mmeval", "mmpretrain.evaluation"])
def test_a_class_of_ones_own_is_found_under_the_scope_of_the_registry_that_migrate_replaced(
    own: dict[str, Any], scope: str
) -> None:
    METRICS.register_module(module=Square)
    assert METRICS.build(dict(type=f"{scope}.Square", side=3)).side == 3
    assert METRICS.build(dict(type="Square", _scope_=scope)).side == 1
    with pytest.raises(fm.UnknownNameError, match=r"mmdet\.Square is not in the metric registry"):
        METRICS.build(dict(type="mmdet.Square"))
    with pytest.raises(fm.UnknownNameError, match=r"mmeval\.Accuracy is not in the metric registry"):
        METRICS.build(dict(type="mmeval.Accuracy"))  # whose values are fractions


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda: METRICS.build(dict(type="Accuracy", top_k=(1, 5))), "topk"),
        (lambda: Accuracy(k=1), "topk"),
        (lambda: Accuracy.calculate([1], [1], top_k=1), "topk"),
        (lambda: MultiLabelMetric(threshold=0.5), "thr"),
        (lambda: SingleLabelMetric(threshold=0.5), "thrs"),
        (lambda: RetrievalRecall(top_k=1), "topk"),
        (lambda: METRICS.build(dict(type=Square, sides=3)), "side"),
        (lambda: fm.Accuracy(topk=5), "top_k"),
        (lambda: fm.Precision(k=5), "top_k"),
        (lambda: fm.HitRate(top_k=5), "k"),
        (lambda: fm.MAP(topk=5), "k"),
        (lambda: fm.Accuracy(n_classes=5), "num_classes"),
        (lambda: fm.F1(thr=0.5), "threshold"),
        (lambda: fm.F1(reduction="macro"), "average"),
    ],
)
def test_an_argument_of_another_name_gets_a_hint(call: Any, meant: str) -> None:
    with pytest.raises(fm.UnknownArgumentError, match=rf"; did you mean {meant}\?") as error:
        call()
    assert isinstance(error.value, fm.InvalidInputError) and isinstance(error.value, TypeError)


def test_a_class_that_takes_any_argument_gets_it() -> None:
    class Any_(Seen):
        def __init__(self, **options: Any) -> None:
            self.topk = options.pop("top_k")
            super().__init__(**options)

    assert Any_(top_k=3).topk == 3


def test_force_says_that_it_is_meant(own: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        METRICS.register_module("Accuracy", force=True, module=Square)
    assert METRICS.get("Accuracy") is Square and METRICS.get("mmpretrain.Accuracy") is Accuracy


def test_a_registry_of_ones_own_has_a_scope() -> None:
    mine = Registry("metric", parent=METRICS, scope="mine")
    with pytest.warns(UserWarning, match="Accuracy"):
        mine.register_module("Accuracy", module=Square)
    mine.register_module(module=Square)
    assert mine.get("Accuracy") is mine.get("mine.Accuracy") is METRICS.get("mine.Accuracy") is Square
    assert METRICS.get("Accuracy") is mine.get("mmpretrain.Accuracy") is Accuracy
    assert "DumpResults" in mine and "Square" not in METRICS and len(mine) == len(METRICS) + 1
