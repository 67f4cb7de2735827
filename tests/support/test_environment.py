"""The settings that users make by environment variables."""

from __future__ import annotations

import pytest

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.support.environment import SETTINGS, setting

pytestmark = pytest.mark.numpy_only


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("FLEETMETRICS_DIGESTS", "", ""),
        ("FLEETMETRICS_DIGESTS", " ", ""),
        ("FLEETMETRICS_DIGESTS", " heads ", "heads"),
        ("FLEETMETRICS_WORKER", " this ", "this"),
        ("FLEETMETRICS_LOG", "INFO", "info"),
        ("FLEETMETRICS_ENGINE", "mpi", "mpi"),
        ("FLEETMETRICS_RUN", " Run 7 ", "Run 7"),
    ],
)
def test_a_setting_is_read_without_spaces_and_one_of_few_in_any_case(
    name: str, text: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, text)
    assert setting(name) == value


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("FLEETMETRICS_DIGESTS", "FLEETMETRICS_DIGESTS holds 'tails'; allowed are 'all' and 'heads'"),
        ("FLEETMETRICS_ENGINE", "FLEETMETRICS_ENGINE holds 'tails'; it must be mpi, for workers that mpirun"),
        ("FLEETMETRICS_LOG", "FLEETMETRICS_LOG holds 'tails'; it must be info, warning, or unset"),
        ("FLEETMETRICS_WORKER", "FLEETMETRICS_WORKER holds 'tails'; allowed is 'this'"),
    ],
)
def test_another_value_is_an_error_that_names_the_variable(
    name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not setting(name)
    monkeypatch.setenv(name, "tails")
    with pytest.raises(InvalidInputError, match=message):
        setting(name)


def test_each_setting_of_few_values_has_a_rule_for_its_error() -> None:
    assert [name for name, one in SETTINGS.items() if bool(one.allowed) != bool(one.rule)] == []
