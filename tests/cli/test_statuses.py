"""The exit status of each kind of error: 2 if the command is invalid, 3 if the data are, and no error is raw."""

from __future__ import annotations

import pytest

from fleetmetrics.cli import _of_the_data, _Outcome, _outcome
from fleetmetrics.errors import CorruptFileError, DataError, InvalidInputError, MissingLibraryError

pytestmark = pytest.mark.numpy_only


def raised(error):
    def act():
        raise error

    return act


def of_the_data(error):
    def act():
        with _of_the_data():
            raise error

    return act


@pytest.mark.parametrize(
    "error, command, data",
    [
        (InvalidInputError("no"), 2, 3),
        (MissingLibraryError("no"), 2, 3),
        (DataError("no"), 3, 3),
        (CorruptFileError("no"), 3, 3),
        (OSError("no"), 3, 3),
    ],
)
def test_an_error_is_the_commands_until_the_data_are_read(error, command, data):
    assert _outcome(raised(error)) == _Outcome(command, "no")
    assert _outcome(of_the_data(error)) == _Outcome(data, "no")
    assert _outcome(lambda: _Outcome(1, "held")) == _Outcome(1, "held")


def test_an_unexpected_error_is_status_3_in_words_and_raised_where_a_log_was_asked_for(monkeypatch):
    monkeypatch.delenv("FLEETMETRICS_LOG", raising=False)
    status, text = _outcome(raised(ZeroDivisionError("no")))
    assert status == 3 and text.startswith("unexpected ZeroDivisionError: no")
    monkeypatch.setenv("FLEETMETRICS_LOG", "info")
    with pytest.raises(ZeroDivisionError):
        _outcome(raised(ZeroDivisionError("no")))
