"""What slices add to the difference of two values: it adds up, and says who has moved."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fleetmetrics import NormalizedEntropy
from fleetmetrics.formulas.contributions import of_areas, of_quotients, of_sums
from fleetmetrics.formulas.slices import placements

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
