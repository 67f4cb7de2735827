"""Ranking metrics: several cutoffs, queries without a relevant document, what is kept and shared, bad input."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import fleetmetrics as fm
from tests import contract

CUT = [fm.DCG, fm.NDCG, fm.MRR, fm.MAP, fm.HitRate, fm.PrecisionAtK, fm.RecallAtK, fm.FallOutAtK, fm.FBetaAtK]
RANKING = [*CUT, fm.RPrecision]
#: Those without a value where nothing is relevant.
OF_RELEVANT = [kind for kind in RANKING if kind not in (fm.DCG, fm.PrecisionAtK, fm.FallOutAtK)]
DATA = contract.draw("ndcg at 4")


def value(metric, data=DATA):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fm.UndefinedMetricWarning)
        contract.feed(metric, contract.batches(data), "numpy")
        return metric.compute()


@pytest.mark.parametrize("kind", CUT)
def test_several_cutoffs_at_once_give_a_dict(kind):
    several = value(kind(k=[1, 3, 100]))
    assert several == {k: value(kind(k=k)) for k in (1, 3, 100)}
    assert list(value(kind(k=(2,)))) == [2]


def test_ndcg_is_scikit_learns():
    from sklearn.metrics import ndcg_score

    rng = np.random.default_rng(3)
    relevance, score = rng.integers(0, 5, (40, 12)), rng.integers(0, 6, (40, 12)) / 4
    for k in (None, 1, 5):
        metric = fm.NDCG(k=k)
        metric.add(score.ravel(), relevance.ravel(), query=np.repeat(np.arange(40), 12))
        assert metric.compute() == pytest.approx(ndcg_score(relevance, score, k=k), rel=1e-12)


def drawn_ties():
    """Scores with ties, relevances, and the ids of the documents of 40 queries."""
    rng = np.random.default_rng(5)
    relevance, score = rng.integers(0, 3, (40, 9)), rng.integers(0, 4, (40, 9)) / 4
    relevance[:, :2] = 1, 0
    return score, relevance, np.argsort(rng.random((40, 9)), axis=1)


@pytest.mark.parametrize("kind", RANKING)
def test_tied_documents_are_ranked_by_their_ids_or_by_their_relevance(kind):
    score, relevance, ids = drawn_ties()
    query, at = np.repeat(np.arange(40), 9), {} if kind is fm.RPrecision else {"k": 3}

    def of_order(keys):
        """The value of the same documents where ties are in the order of the keys."""
        metric, ranks = kind(**at), np.argsort(np.lexsort((keys, -score)), axis=1)
        metric.add(-ranks.ravel(), relevance.ravel(), query=query)
        return metric.compute()

    def of_ties(ties, **columns):
        metric = kind(ties=ties, **at)
        for rows in (slice(0, 200), slice(200, 203), slice(203, None)):
            rest = {name: column.ravel()[rows] for name, column in columns.items()}
            metric.add(score.ravel()[rows], relevance.ravel()[rows], query=query[rows], **rest)
        return metric.compute()

    texts = np.array([f"d{place}" for place in ids.ravel()]).reshape(ids.shape)
    assert of_ties("ascending", document=ids) == pytest.approx(of_order(ids), rel=1e-12)
    assert of_ties("descending", document=texts) == pytest.approx(of_order(-ids), rel=1e-12)
    best, worst = of_ties("best"), of_ties("worst")
    assert [best, worst] == pytest.approx([of_order(-relevance), of_order(relevance)], rel=1e-12)
    assert of_ties("ascending", document=np.zeros_like(ids)) == of_ties("mean")
    low, high = sorted([best, worst])
    assert low < of_ties("mean") < high


def test_metrics_of_a_collection_may_rank_ties_by_different_rules():
    metrics = fm.MetricCollection({ties: fm.MRR(ties=ties) for ties in ("mean", "best", "worst")})
    metrics.add([0.5, 0.5], [1, 0], query=[7, 7])
    assert metrics.compute() == {"mean": 0.75, "best": 1.0, "worst": 0.5}


def test_a_rule_for_ties_has_one_of_five_names_and_needs_ids_where_it_compares_them():
    with pytest.raises(fm.InvalidInputError, match="ties must be one of 'mean', 'best', 'worst', 'ascending', "):
        fm.NDCG(ties="first")
    with pytest.raises(fm.InvalidInputError, match="document='docno' names ids that only ties='ascending' and 'desc"):
        fm.MRR(document="docno")
    metric = fm.MAP(ties="descending", document="docno")
    with pytest.raises(fm.InvalidInputError, match="docno is missing; pass add"):
        metric.add([0.5, 0.5], [1, 0], query=[1, 1])


@pytest.mark.parametrize("kind", OF_RELEVANT)
def test_a_query_without_a_relevant_answer_is_left_out_with_a_warning_or_counts_as_asked(kind):
    def fed(**settings):
        metric = kind(**settings)
        metric.add([0.9, 0.1, 0.8, 0.7], [1, 0, 0, 0], query=[1, 1, 2, 2])
        return metric

    with pytest.warns(fm.UndefinedMetricWarning, match="is undefined for 1 queries without a relevant document"):
        left_out = fed().compute()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fed(zero_division=0).compute() == pytest.approx(left_out / 2)
        assert fed(zero_division=1).compute() == pytest.approx((left_out + 1) / 2)
    nothing = kind()
    nothing.add([0.8, 0.7], [0, 0], query=[2, 2])
    with pytest.warns(fm.UndefinedMetricWarning, match="no query has a relevant document; the value is nan"):
        assert np.isnan(nothing.compute())


def test_fall_out_leaves_out_queries_to_which_everything_is_relevant():
    def fed(**settings):
        metric = fm.FallOutAtK(k=1, **settings)
        metric.add([0.9, 0.1, 0.8, 0.7], [1, 2, 0, 0], query=[1, 1, 2, 2])
        return metric

    with pytest.warns(fm.UndefinedMetricWarning, match="fall-out at k .* 1 queries without an irrelevant document"):
        assert fed().compute() == 0.5
    assert fed(zero_division=1).compute() == 0.75  # as torchmetrics has it by default
    everything = fm.FallOutAtK()
    everything.add([0.8, 0.7], [1, 1], query=[2, 2])
    with pytest.warns(fm.UndefinedMetricWarning, match="no query has an irrelevant document; the value is nan"):
        assert np.isnan(everything.compute())


def test_metrics_of_a_collection_keep_the_answers_once():
    metrics = fm.MetricCollection([kind(name=kind.__name__) for kind in RANKING])
    assert value(metrics) == {kind.__name__: value(kind()) for kind in RANKING}
    assert len(metrics.record_folds()) == 1


@pytest.mark.parametrize("mode", ["numpy", "dynamic"])
def test_what_is_kept_does_not_change_with_the_arrays_it_came_from(mode):
    import paddle

    score, relevance = np.array([0.9, 0.1]), np.array([0, 1])
    metric = fm.MRR()
    if mode == "dynamic":
        metric.add(paddle.to_tensor(score), paddle.to_tensor(relevance), query=[1, 1])
    else:
        metric.add(score, relevance, query=[1, 1])
    score[:] = 0
    assert metric.compute() == metric.compute() == 0.5


def test_the_query_may_have_another_name():
    metric = fm.NDCG(by="session")
    metric.add([0.9, 0.1], [1, 0], session=["a", "a"])
    assert metric.compute() == 1.0


def test_in_a_static_program_the_error_says_what_to_do():
    import paddle

    for metric in (fm.NDCG(name="it"), fm.GAUC(name="it", by="query")):
        with contract.new_programs():
            score = paddle.static.data("score", [-1], "float32")
            label = paddle.static.data("label", [-1], "int64")
            query = paddle.static.data("query", [-1], "int64")
            fetch = r"^it \(\w+\) keeps every sample, .* fetch prediction, label, query with exe.run"
            with pytest.raises(fm.StaticProgramError, match=fetch):
                metric.add(score, label, query=query)


BAD = [
    (dict(), dict(query=None), "query is missing; pass add"),
    (dict(), dict(query=[1, 2, 3]), "query has shape"),
    (dict(), dict(query=[None, 1]), "query must hold integers or strings"),
    (
        dict(),
        dict(query=[1, 2], user=[1, 2]),
        "no argument 'user'; did you mean query. Allowed are prediction, .*, query",
    ),
    (dict(prediction=[np.nan, 1.0]), dict(), "prediction must be a finite number"),
    (dict(label=[-1, 1]), dict(), "label must be a relevance: a finite number of at least 0"),
    (dict(label=[np.inf, 1]), dict(), "label must be a relevance"),
    (dict(prediction=[[0.5, 0.2, 0.3]] * 2), dict(), r"prediction has shape \[n, 3\] and label \[n\]"),
]


@pytest.mark.parametrize("parts, columns, told", BAD)
def test_bad_samples_are_an_error_and_nothing_is_lost(parts, columns, told):
    metric = fm.MRR(name="it")
    good = dict(prediction=[0.9, 0.1], label=[0, 1], query=[1, 1])
    metric.add(**good)
    with pytest.raises(fm.InvalidInputError, match=told):
        metric.add(**{**good, **parts, **columns})
    assert metric.compute() == 0.5


def test_a_gain_that_no_float_holds_is_an_error():
    metric = fm.NDCG(name="it", gains="exponential")
    with pytest.raises(fm.InvalidInputError, match="label must be a relevance from 0 to 1000"):
        metric.add([0.9, 0.1], [0, 1024], query=[1, 1])


def test_queries_may_come_from_a_data_frame_and_not_be_missing():
    metric = fm.MRR(name="it")
    metric.add([0.9, 0.1], [0, 1], query=np.array(["a", "a"], object))
    assert metric.compute() == 0.5
    with pytest.raises(fm.InvalidInputError, match="query must hold integers or strings, one per sample, not float64"):
        metric.add([0.9, 0.1], [0, 1], query=[1.0, np.nan])


def test_users_of_one_class_and_great_weight_do_not_disturb_the_others():
    rng = np.random.default_rng(0)
    user, score, label = np.repeat(np.arange(40), 8), rng.random(320), rng.integers(0, 2, 320)
    label[user % 2 == 0] = 1
    weight = np.where(user % 2 == 0, 1e15, 1.0)
    heavy, alone = fm.UAUC(), fm.UAUC()
    heavy.add(score, label, weight, user=user)
    odd = user % 2 == 1
    alone.add(score[odd], label[odd], user=user[odd])
    assert heavy.compute() == pytest.approx(alone.compute(), rel=1e-12)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_weights_of_any_size_give_the_same_areas(scale):
    data = contract.draw("gauc", weight="real")
    value, scaled = fm.UAUC(), fm.UAUC()
    contract.feed(value, [data], "numpy")
    contract.feed(scaled, [data._replace(weight=data.weight * scale)], "numpy")
    assert scaled.compute() == pytest.approx(value.compute(), rel=1e-12)


def test_texts_and_numbers_do_not_mix():
    metric = fm.MRR(name="it")
    metric.add([0.9], [1], query=["a"])
    metric.add([0.9], [1], query=[1])
    with pytest.raises(fm.InvalidInputError, match="it: query holds strings in some batches and numbers in others"):
        metric.compute()


@pytest.mark.parametrize("k", [0, -1, 1.5, "3", True, [], [1, 1], [None], [0]])
def test_a_bad_cutoff_is_an_error(k):
    with pytest.raises(fm.InvalidInputError, match="k must"):
        fm.NDCG(k=k)


def test_other_bad_arguments_are_errors():
    with pytest.raises(fm.InvalidInputError, match="gains must be one of 'linear', 'exponential', not 'log'"):
        fm.NDCG(gains="log")
    with pytest.raises(fm.InvalidInputError, match="beta must be a finite number above 0, not 0"):
        fm.FBetaAtK(beta=0)
    with pytest.raises(
        fm.InvalidInputError, match="user_weight must be one of 'samples', 'clicks', 'uniform', not 'money'"
    ):
        fm.GAUC(user_weight="money")


@pytest.mark.numpy_only
@pytest.mark.parametrize("k", [None, 3])
def test_a_list_of_gains_is_that_of_lightgbm(k):
    rng = np.random.default_rng(0)
    query, label, score = np.repeat(np.arange(20), 8), rng.integers(0, 4, 160), rng.random(160)
    label[:8] = 0  # the gains of a query without relevance are 0, and it has no value
    for kind in (fm.DCG, fm.NDCG):
        for gains, same in (([0, 1, 3, 7], "exponential"), (range(5), "linear"), (np.arange(4.0), "linear")):
            listed, named = kind(k, gains=gains, zero_division=1), kind(k, gains=same, zero_division=1)
            for metric in (listed, named):
                metric.add(score, label, query=query)
            assert listed.compute() == named.compute()
    ideal = fm.NDCG(gains=[0, 5, 1])  # not rising: the ideal order is that of the gains
    ideal.add([0.9, 0.5, 0.1], [1, 2, 0], query=[1, 1, 1])
    assert ideal.compute() == 1 and ideal.settings()["gains"] == (0, 5, 1)


@pytest.mark.numpy_only
def test_a_relevance_without_a_gain_and_gains_that_are_none_are_errors():
    metric = fm.NDCG(gains=[0, 1, 3])
    for label in (3, 0.5, -1):
        with pytest.raises(fm.InvalidInputError, match=f"a whole number from 0 to 2, as gains has 3 entries.*{label}"):
            metric.add([0.9, 0.5], [0, label], query=[1, 1])
    for gains in ([], [1, -1], [[1]], None, ["a"], [np.nan], [np.inf]):
        with pytest.raises(fm.InvalidInputError, match=r"gains must be .* such as LightGBM's label_gain"):
            fm.DCG(gains=gains)


@pytest.mark.numpy_only
def test_adaptive_k_divides_by_the_documents_of_a_query_that_has_fewer_than_k():
    random = np.random.default_rng(0)
    query, score = np.repeat(range(4), [1, 2, 3, 6]), random.permutation(12) / 12
    label, values = random.integers(0, 2, 12), {}
    for k in (None, 2, 4, [1, 3]):
        metric = fm.PrecisionAtK(k, adaptive_k=True)
        metric.add(score, label, query=query)
        values[str(k)] = metric.compute()
    # what XGBoost 3.2 prints of these documents as pre@k
    expected = {"None": 0.5, "2": 0.625, "4": 0.52083333333333326, "[1, 3]": {1: 0.75, 3: 0.58333333333333326}}
    assert values == {k: pytest.approx(value, rel=1e-12) for k, value in expected.items()}
    with pytest.raises(fm.InvalidInputError, match="adaptive_k must be True or False, not 'yes'"):
        fm.PrecisionAtK(2, adaptive_k="yes")


def test_users_of_one_class_do_not_count_and_none_left_is_undefined():
    metric = fm.GAUC()
    metric.add([0.9, 0.1, 0.3], [1, 0, 1], user=["a", "a", "b"])
    assert metric.compute() == 1.0
    alone = fm.UAUC()
    alone.add([0.9], [1], user=["a"])
    with pytest.warns(fm.UndefinedMetricWarning, match="uauc is undefined: no user has samples of both classes"):
        assert np.isnan(alone.compute())
    assert fm.WuAUC(zero_division=0.5).compute() == 0.5


@pytest.mark.parametrize(
    ("settings", "value"),
    [  # what LightGBM 4.7, XGBoost 3.2 and CatBoost 1.2 print of these documents
        (dict(k=3, gains="exponential", zero_division=1), 0.9278345801896452),
        (dict(k=5, gains="exponential", zero_division=1), 0.9493563845714895),
        (dict(k=3, gains="exponential", zero_division=0), 0.6778345801896450),
        (dict(k=3, gains="linear", zero_division=1), 0.9524882791605083),
    ],
)
def test_ndcg_with_two_settings_is_that_of_lightgbm_xgboost_and_catboost(settings, value):
    random = np.random.default_rng(0)
    query, relevance = np.repeat(range(4), 6), random.integers(0, 4, 24)
    relevance[query == 3] = 0
    score = random.permutation(24) / 24
    ndcg = fm.NDCG(**settings)
    ndcg.add(score, relevance, query=query)
    assert ndcg.compute() == pytest.approx(value, rel=1e-9)
    of_queries = []
    for number in range(4):
        found = relevance[query == number][np.argsort(-score[query == number])]
        gains = [2.0**each - 1 if settings["gains"] == "exponential" else each for each in found]
        orders = [gains, sorted(gains, reverse=True)]
        own, best = (sum(g / np.log2(i + 2) for i, g in enumerate(each[: settings["k"]])) for each in orders)
        of_queries.append(own / best if best else settings["zero_division"])
    assert ndcg.compute() == pytest.approx(np.mean(of_queries))
