"""Losses of language models against plain sums, and where they are undefined or infinite."""

import math

import pytest

from fleetmetrics import InvalidInputError, UndefinedMetricWarning, formulas

pytestmark = pytest.mark.numpy_only


def test_the_values_are_those_of_the_definitions():
    losses = [0.5, 2.0, 0.25]
    assert formulas.token_loss(sum(losses), 3) == sum(losses) / 3
    assert formulas.perplexity(sum(losses), 3) == math.exp(sum(losses) / 3)
    assert formulas.bits_per_byte(sum(losses), 7) == pytest.approx(sum(math.log2(math.exp(x)) for x in losses) / 7)


def test_a_perplexity_beyond_float64_is_infinite_and_the_largest_one_is_not():
    assert formulas.perplexity(7097.0, 10) < math.inf == formulas.perplexity(7098.0, 10)


@pytest.mark.parametrize("name", ["token_loss", "perplexity", "bits_per_byte"])
def test_without_tokens_or_bytes_the_value_is_undefined(name):
    function = getattr(formulas, name)
    with pytest.warns(UndefinedMetricWarning, match=f"^{name} is undefined: (no token counts|there are no bytes)"):
        assert math.isnan(function(0.0, 0))
    assert function(0.0, 0, zero_division=0.5) == 0.5
    with pytest.raises(InvalidInputError, match="must be a finite number of at least 0"):
        function(1.0, -1)
