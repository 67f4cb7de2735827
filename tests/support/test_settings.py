"""How metrics are made: settings go by keyword, and the error for a wrong argument names the right one."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import fleetmetrics as fm

pytestmark = pytest.mark.numpy_only

CATALOGUE = [getattr(fm.metrics, name) for name in fm.metrics.__all__]
CATALOGUE = [kind for kind in CATALOGUE if issubclass(kind, fm.Metric)]

#: The settings that the field passes by position.
BY_POSITION = ("k", "beta", "quantile")


@pytest.mark.parametrize("kind", CATALOGUE)
def test_settings_go_by_keyword_but_for_the_one_that_the_field_passes_by_position(kind):
    parameters = inspect.signature(kind).parameters.values()
    positional = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    assert len(positional) <= 1 and set(positional) <= set(BY_POSITION)
    assert {"name", "validate", "share"} <= {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}


def test_one_setting_may_go_by_position():
    data = {"prediction": [0.9, 0.2, 0.7], "label": [1, 0, 0], "query": [1, 1, 1]}
    for short, long in [(fm.NDCG(2), fm.NDCG(k=2)), (fm.PrecisionAtK(1), fm.PrecisionAtK(k=1))]:
        short.add(**data), long.add(**data)
        assert short.compute() == long.compute()
    assert fm.FBeta(2).beta == 2 and fm.QuantileLoss(0.9).quantile == 0.9
    assert fm.Sliced(fm.AUC(), "country").by == "country"
    assert fm.Windowed(fm.AUC(), 10).last == 10 and fm.Bootstrap(fm.AUC(), 200).replicates == 200


@pytest.mark.parametrize(
    "kind, value, meant",
    [
        (fm.AUC, "PR", "curve='PR'"),
        (fm.LogLoss, "multiclass", "task='multiclass'"),
        (fm.Precision, "micro", "average='micro'"),
        (fm.DCG, (10, "exponential"), "gains='exponential'"),
        (fm.GAUC, "clicks", "user_weight='clicks'"),
        (fm.AUC, "validation", "name='validation'"),
    ],
)
def test_a_text_without_a_keyword_is_an_error_that_guesses_which(kind, value, meant):
    given = value if isinstance(value, tuple) else (value,)
    with pytest.raises(fm.InvalidInputError, match=f"^{kind.__name__} takes .* did you mean {meant}"):
        kind(*given)


def test_a_number_without_a_keyword_is_an_error_that_lists_them():
    with pytest.raises(fm.InvalidInputError, match=r"^Variance takes ddof, zero_division, name, .* by keyword"):
        fm.Variance(1)
    with pytest.raises(fm.InvalidInputError, match=r"^Windowed takes lifetime, .* by keyword, and was given False"):
        fm.Windowed(fm.AUC(), 10, False)
    with pytest.raises(fm.InvalidInputError, match=r"^MetricCollection takes .* did you mean name='it'?"):
        fm.MetricCollection([], "it")


@pytest.mark.parametrize("kind", [*CATALOGUE, fm.MetricCollection, fm.Sliced, fm.Windowed, fm.Bootstrap, fm.Interval])
def test_an_unknown_setting_is_an_error_that_names_the_metric_and_what_it_takes(kind):
    required = {"metric": fm.Count(), "last": 3, "metrics": [], "types": ["PER"]}
    parameters = inspect.signature(kind).parameters.values()
    given = {each.name: required.get(each.name, 0.5) for each in parameters if each.default is each.empty}
    with pytest.raises(
        fm.InvalidInputError, match=rf"^{kind.__name__} has no setting 'sahre'; did you mean share\? It"
    ):
        kind(**given, sahre=True)


def test_a_setting_that_belongs_to_another_metric_is_unknown():
    wrong = {fm.UAUC: "user_weight", fm.Sum: "zero_division", fm.ROCCurve: "task", fm.AUC: "k"}
    for kind, name in wrong.items():
        with pytest.raises(fm.InvalidInputError, match=f"has no setting '{name}'"):
            kind(**{name: None})
    assert not any({"k", "spacing"} & {*inspect.signature(kind).parameters} for kind in (fm.GAUC, fm.Accuracy))


class Shifted(fm.MeanAbsoluteError):
    """A metric of a user, derived from one of the catalogue."""

    def __init__(self, by, *, scale=1.0, **common):
        super().__init__(**common)
        self.by, self.scale = by, scale

    def formula(self, **states):
        return super().formula(**states) * self.scale + self.by


def test_a_derived_metric_has_the_settings_of_its_base():
    names = list(inspect.signature(Shifted).parameters)
    assert names == ["by", "scale", "zero_division", "name", "validate", "share", "sampler", "size"]
    metric = Shifted(3, scale=2, name="mine").fresh(name="again")
    metric.add([1.0], [2.0])
    assert metric.name == "again" and metric.compute() == 5.0
    with pytest.raises(
        fm.InvalidInputError, match=r"^Shifted has no setting 'scal'; did you mean scale\? It takes by, "
    ):
        Shifted(3, scal=2)


class Half(fm.Metric):
    """A metric of a user, without settings."""

    declared = (fm.Declared("total", key="total"),)

    def batch_statistics(self, batch):
        return {"total": batch.total}

    def formula(self, total):
        return total.item() / 2


def test_states_that_depend_on_no_setting_are_declared_by_the_class():
    one, other = Half(name="one"), Half(name="other")
    one.add([1.0, 2.0]), other.add([1.0], mask=np.array([True]))
    assert one.states["total"] is not other.states["total"] and one.states["total"].name == "one.total"
    assert (one.compute(), other.compute()) == (1.0, 0.5)


@pytest.mark.parametrize(
    "value, text",
    [
        (fm.AUC(), "AUC()"),
        (fm.AUC(curve="PR", buckets=64), "AUC(curve='PR', buckets=64)"),
        (fm.AUC(curve="ROC"), "AUC()"),  # the default
        (fm.NDCG(5), "NDCG(k=5)"),
        (fm.FBeta(2), "FBeta(beta=2)"),
        (fm.Sliced(fm.AUC(), "country"), "Sliced(AUC(), by='country')"),
        (fm.Windowed(fm.Accuracy(threshold=0.3), 10), "Windowed(Accuracy(threshold=0.3), 10)"),
        (fm.MetricCollection({"a": fm.Count()}, prefix="p/"), "MetricCollection({'a': Count()}, prefix='p/')"),
        (fm.MetricCollection([fm.Count()]), "MetricCollection([Count()])"),
        (fm.MeanSquaredError() - 2 * fm.COPC(), "(MeanSquaredError() - (2 * COPC()))"),
        (-fm.AUC(), "-(AUC())"),
    ],
)
def test_a_repr_is_the_call_of_the_constructor(value, text):
    assert repr(value) == text


def test_no_repr_shows_an_address():
    class Sampler:
        pass

    class Owned(fm.Count):
        def __init__(self, data, fill=len, **common):
            super().__init__(**common)

    assert repr(Owned([Sampler()], sum)) == "Owned([<Sampler>], fill=sum)"
    assert repr(Owned(Sampler, lambda x: x)).endswith("<lambda>)")
    for kind in CATALOGUE:
        metric = kind.__new__(kind)
        assert " at 0x" not in repr(metric)
