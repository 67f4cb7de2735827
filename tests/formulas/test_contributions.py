"""What slices add to the difference of two values: it adds up, and says who has moved."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fleetmetrics import NormalizedEntropy
from fleetmetrics.formulas.contributions import of_areas, of_quotients, of_sums
from fleetmetrics.formulas.spreads import placements

pytestmark = pytest.mark.numpy_only


def total(found):
    return math.fsum([*found.mix, *found.within])


def area(histograms):
    negative, positive = histograms.sum(axis=0).astype(np.float64)
    return placements(positive, negative)[2]


@pytest.mark.parametrize("value, slope", [(float, lambda _: 1.0), (math.sqrt, lambda x: 0.5 / math.sqrt(x))])
def test_what_slices_add_to_a_quotient_adds_up_with_slices_that_come_and_go(value, slope):
    random = np.random.default_rng(0)
    sides = [(random.uniform(0, 5, 8), random.uniform(1, 9, 8)) for _ in range(2)]
    for side, gone in zip(sides, (2, 5)):
        for sums in side:
            sums[gone] = 0
    found = of_quotients(*sides, value, slope)
    new, old = (value(n.sum() / d.sum()) for n, d in sides)
    assert total(found) == pytest.approx(new - old, rel=1e-12)
    assert found.within[2] == found.within[5] == 0 and found.mix[2] != 0


def test_a_slice_whose_rate_has_changed_is_within_and_one_that_has_grown_is_mix():
    within = of_quotients(([30, 5], [100, 100]), ([30, 10], [100, 100]))
    assert within.mix.tolist() == [0, 0] and within.within.tolist() == [0, -0.025]
    mix = of_quotients(([60, 10], [200, 100]), ([30, 10], [100, 100]))
    assert mix.within.tolist() == [0, 0] and (mix.mix > 0).all()  # more of the good one, less of the bad one


def test_no_share_of_a_difference_is_a_negative_zero():
    found = of_quotients(([30, 5], [100, 100]), ([30, 10], [100, 100]), lambda x: -x, lambda _: -1.0)
    assert found.within[0] == 0 and not np.signbit(found.within[0]) and not np.signbit(found.mix).any()


def test_a_quotient_as_a_function_of_two_sums_has_the_same_shares():
    random = np.random.default_rng(5)
    (n, d), (m, e) = (random.uniform(1, 9, (2, 6)) for _ in range(2))
    found = of_sums(np.stack([n, d], 1), np.stack([m, e], 1), d, e, lambda n, d: (1 / d, -n / d**2))
    wanted = of_quotients((n, d), (m, e))
    assert found.mix.tolist() == pytest.approx(wanted.mix.tolist(), rel=1e-12)
    assert found.within.tolist() == pytest.approx(wanted.within.tolist(), rel=1e-12)


def test_what_slices_add_to_an_area_adds_up_with_weights_and_a_slice_that_is_new():
    random = np.random.default_rng(1)
    new, old = (random.integers(0, 30, (6, 2, 40)) * 0.5 for _ in range(2))
    old[3] = 0
    assert total(of_areas(new, old)) == pytest.approx(area(new) - area(old), rel=1e-12)


def test_the_slice_whose_scores_were_shuffled_has_the_whole_loss_of_an_area():
    random = np.random.default_rng(2)
    label, slot = random.integers(0, 2, 40_000), random.integers(0, 4, 40_000)
    good = np.clip(random.normal(20 + 10 * label, 8), 0, 63).astype(int)
    bad = np.where(slot == 2, random.permutation(good), good)
    new, old = np.zeros((4, 2, 64)), np.zeros((4, 2, 64))
    np.add.at(new, (slot, label, bad), 1)
    np.add.at(old, (slot, label, good), 1)
    found = of_areas(new, old)
    lost = area(new) - area(old)
    assert found.within[2] == pytest.approx(lost, rel=0.02) and lost < -0.05
    assert np.abs(np.delete(found.within, 2)).max() < 0.01 * -lost and np.abs(found.mix).max() < 1e-12


def test_other_units_of_the_scores_move_nobody():
    random = np.random.default_rng(3)
    old = random.integers(0, 30, (5, 2, 30)).astype(float)
    new = np.zeros((5, 2, 90))
    new[:, :, 5:65:2] = old  # the same order in other buckets
    found = of_areas(new, old)
    assert np.abs([*found.mix, *found.within]).max() < 1e-15


def test_what_slices_add_to_a_function_of_three_sums_adds_up():
    random = np.random.default_rng(4)
    sides, rows = [], []
    for _ in range(2):
        number = random.integers(100, 1000, 5)
        clicks = number * random.uniform(0.02, 0.3, 5)
        sides.append(np.stack([-number * random.uniform(0.1, 0.4, 5), clicks, number - clicks], axis=1))
        rows.append(number)
    for side, missing in enumerate((1, 3)):  # one slice is new, another gone
        sides[side][missing], rows[side][missing] = 0, 0

    def entropy(likelihood, clicks, others):
        both = clicks + others
        return likelihood / (clicks * math.log(clicks / both) + others * math.log(others / both))

    found = of_sums(*sides, *rows, NormalizedEntropy.linear.slopes)
    new, old = (entropy(*side.sum(axis=0)) for side in sides)
    assert total(found) == pytest.approx(new - old, rel=1e-10)


def test_where_the_wholes_are_equal_the_slope_takes_the_place_of_the_secant():
    sides = ([30, 10], [100, 100]), ([10, 30], [100, 100])
    plain, found = of_quotients(*sides), of_quotients(*sides, math.sqrt, lambda x: 0.5 / math.sqrt(x))
    assert found.within.tolist() == pytest.approx((plain.within * 0.5 / math.sqrt(0.2)).tolist(), rel=1e-12)
    assert found.within[0] > 0 > found.within[1]


def test_pairs_of_an_area_that_are_tied_count_half_as_counted_one_by_one():
    random = np.random.default_rng(6)
    sides = [random.integers(0, 4, (3, 2, 5)) for _ in range(2)]  # few buckets: many ties
    rows = []
    for side in sides:
        level = side.sum(axis=(0, 1))
        ranks = (np.cumsum(level) - level / 2) / level.sum()
        rows.append([(s, y, ranks[b]) for (s, y, b), n in np.ndenumerate(side) for _ in range(n)])
    quotients = []
    for label in (1, 0):
        of_label = []
        for side in rows:
            sums, counts = np.zeros(3), np.zeros(3)
            for slot, y, rank in side:
                if y == label:
                    others = [[r for _, other, r in each if other != label] for each in rows]
                    below = [sum((r < rank) + (r == rank) / 2 for r in each) / len(each) for each in others]
                    sums[slot] += np.mean(below) if label else 1 - np.mean(below)
                    counts[slot] += 1
            of_label.append((sums, counts))
        quotients.append(of_quotients(*of_label))
    found = of_areas(*sides)
    assert found.mix.tolist() == pytest.approx((quotients[0].mix + quotients[1].mix).tolist(), abs=1e-14)
    assert found.within.tolist() == pytest.approx((quotients[0].within + quotients[1].within).tolist(), abs=1e-14)


def test_of_sums_a_slice_of_one_side_has_not_changed_and_one_like_the_whole_adds_nothing_by_its_share():
    def slopes(a, b):
        return 1 / b, -a / b**2

    new, old = [[4.0, 8.0], [3.0, 1.0]], [[2.0, 4.0], [0.0, 0.0]]
    for sides in ((new, old, [4, 3], [2, 0]), (old, new, [2, 0], [4, 3])):
        found = of_sums(*sides, slopes)
        assert found.within.tolist() == [0.0, 0.0] and found.mix[1] != 0
    # per row the first has 3 and 3 on both sides, as the mean of the wholes, 2.5 and 3.5, and 3.5 and 2.5
    like = of_sums([[3, 3], [2, 4]], [[9, 9], [5, 1]], [1, 1], [3, 1], slopes)
    assert like.mix[0] == 0 and like.within[0] == 0
    assert total(like) == pytest.approx(2.5 / 3.5 - 3.5 / 2.5, rel=1e-12)


def test_weights_of_any_unit_have_the_same_contributions():
    new, old = ([3.0, 1.0], [9.0, 7.0]), ([2.0, 2.0], [8.0, 9.0])
    small = [[np.array(each) * 2.0**-9 for each in side] for side in (new, old)]  # weights far below 1
    for found, wanted in zip(of_quotients(*small), of_quotients(new, old)):
        assert found.tolist() == wanted.tolist()
    areas = np.random.default_rng(7).integers(0, 3, (2, 3, 2, 5))
    for found, wanted in zip(of_areas(*(areas * 2.0**-9)), of_areas(*areas)):
        assert found.tolist() == wanted.tolist()
