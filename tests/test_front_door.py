"""Nonsense is refused where it comes in, by an error that names the argument; never by Python's own."""

from __future__ import annotations

import datetime
import os
import re

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics import cli, files, migrate, report
from fleetmetrics.errors import FileAccessError
from tests.fakes import together

pytestmark = pytest.mark.numpy_only
pytest.importorskip("pyarrow")


class Odd:
    def __len__(self):
        return 3


WRONG = [
    None,
    5,
    -1,
    1.5,
    float("nan"),
    True,
    b"abc",
    "",
    "a\0b",
    [],
    [1],
    ["a"],
    [None],
    {},
    {"a": 1},
    (),
    {1},
    object(),
]
WRONG += [Odd, Odd(), np.zeros(3), np.array("a"), np.zeros((2, 2)), 1j, 2**70, range(3), ..., Exception("x"), type]
WRONG += [np.float32(1), datetime.date(2024, 1, 1), [[1], [2, 3]], {"prediction": 5}, slice(1), lambda: 1, fm.Count]
WRONG += [fm.Count(), fm.MetricCollection([fm.Count()]), {"": fm.Count()}, np.ma.masked_array([1.0, 2.0], [0, 1])]


def accuracy():
    metric = fm.Accuracy()
    metric.add([0.9, 0.2], [1, 0])
    return metric


@pytest.fixture
def calls(tmp_path):
    """Public functions, each with arguments that are right."""
    csv, saved = tmp_path / "scores.csv", tmp_path / "saved.fms"
    csv.write_text("score,clicked\n0.9,1\n0.2,0\n")
    fm.save(saved, accuracy())
    columns = {"prediction": "score", "label": "clicked"}
    given = {"make_metrics": fm.Accuracy, "columns": columns, "skip_bad_rows": False, "format": None, "progress": False}
    several = {"files": csv, "processes": 1, "complete_by": None, "totals": None, "memory": None}
    channel = {"communicator": None, "timeout": None}
    return {
        "save": (fm.save, {"path": tmp_path / "new.fms", "metrics": accuracy(), "batches": None, **channel}),
        "load": (fm.load, {"path": saved, "metrics": fm.Accuracy(), **channel}),
        "merge_all": (fm.merge_all, {"parts": [accuracy()]}),
        "evaluate": (files.evaluate, {**given, **several}),
        "evaluate_file": (files.evaluate_file, {**given, "path": csv, "share": None}),
        "find": (files.find, {"files": csv}),
        "together": (files.together, {"parts": [files.Read()]}),
        "html": (report.html, {"result": {"auc": 0.7}, "metrics": None, "baseline": None, "lang": "en"}),
        "migrated": (migrate.migrated, {"text": "import mmeval"}),
        "migrate": (migrate.main, {"arguments": [str(csv)]}),
        "cli": (cli.main, {"argv": ["metrics"]}),
        "backend": (fm.get_dist_backend, {"dist_backend": None}),
        "default": (fm.set_default_dist_backend, {"dist_backend": "auto"}),
        "communicator": (fm.set_communicator, {"communicator": None}),
        "flatten": (fm.flatten, {"values": {"a": 1}, "prefix": "", "most": 5, "matrices": True}),
        "collection": (fm.MetricCollection, {"metrics": [fm.Count()], "prefix": "", "name": None}),
        "compute": (accuracy().compute, {"util": None, **channel}),
        "merge": (accuracy().merge, {"other": accuracy()}),
        "close": (fm.ExactAUC().close, {"complete_by": "score", "totals": None}),
        "state": (fm.Accuracy().set_state_dict, {"state": accuracy().state_dict()}),
    }


NAMES = (
    "save load merge_all evaluate evaluate_file find together html migrated migrate cli backend default communicator "
)
NAMES += "flatten collection compute merge close state"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES.split())
def test_a_wrong_argument_is_refused_by_name_and_never_by_pythons_own_error(name, calls, capsys):
    call, right = calls[name]
    call(**right)
    for argument in right:
        for wrong in WRONG:
            if argument == "make_metrics" and wrong is type:
                continue  # what the user's own function raises is the user's
            try:
                call(**{**right, argument: wrong})
            except (fm.FleetMetricsError, SystemExit):
                pass
            except SyntaxError:
                assert name == "migrated" and isinstance(wrong, str)
            except BaseException as error:
                pytest.fail(f"{name}({argument}={wrong!r}): {error!r}")
            finally:
                fm.set_communicator(None)
                fm.set_default_dist_backend("auto")


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: fm.save(5, accuracy()), "path must be a path, a string or an os.PathLike, not 5"),
        (lambda: fm.save("", accuracy()), "path must be a path, .* not ''"),
        (lambda: fm.save("a\0", accuracy()), r"path must be a path, .* not 'a\\x00'"),
        (lambda: fm.save("x", accuracy(), communicator=5), "communicator is 5; it must be a .*Communicator, or None"),
        (lambda: fm.load("x", fm.Count(), communicator=[]), r"communicator is \[\]; it must"),
        (lambda: accuracy().compute(communicator=5), "communicator is 5; it must"),
        (lambda: fm.merge_all(5), "parts must be a list of metrics or collections, not 5"),
        (lambda: fm.merge_all(["abc"]), "parts must hold metrics or collections, not str"),
        (lambda: files.evaluate(5, fm.Count, {}), "files must be a list of paths, not 5"),
        (lambda: files.evaluate([5], fm.Count, {}), "files must be a path, .* not 5"),
        (lambda: files.evaluate(__file__, 5, {}), "make_metrics must be a function .* it is 5"),
        (lambda: files.evaluate(__file__, lambda: 7, {}), "make_metrics must be a function .*, which returned 7"),
        (lambda: files.evaluate(__file__, fm.Count, "abc"), "columns must be a dict, .* not 'abc'"),
        (lambda: files.evaluate(__file__, fm.Count, {}, complete_by=["user"]), "complete_by must be the name .*'user'"),
        (
            lambda: files.evaluate(__file__, fm.Count, {"prediction": "p"}, skip_bad_rows=1),
            "skip_bad_rows must be True",
        ),
        (
            lambda: files.evaluate(__file__, fm.Count, {"prediction": "p"}, format="xml"),
            "format must be one of None, 'p",
        ),
        (lambda: report.html(5), "result must be a dict, .* not 5"),
        (lambda: report.html({}, 5), "metrics must be a metric, a MetricCollection or None, not 5"),
        (lambda: fm.get_dist_backend([]), r"dist_backend is \[\]; allowed are 'auto'"),
        (lambda: migrate.migrated(5), "text must be the source of a script, not 5"),
        (lambda: migrate.main("abc"), "arguments must be a list of strings, not 'abc'"),
        (lambda: fm.MetricCollection(5), "metrics must be a list of metrics, or a dict of them by key, not 5"),
    ],
)
def test_the_error_names_argument_value_and_the_allowed_values(call, told):
    with pytest.raises(fm.InvalidInputError, match=f"^{told}"):
        call()


def test_a_path_that_the_system_refuses_is_named_with_its_reason(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "not" / "there" / "x.fms", tmp_path / "file" / "x.fms"):
        with pytest.raises(FileAccessError, match=rf"^path: {re.escape(str(path))} cannot be used: .*Errno") as caught:
            fm.save(path, accuracy())
        assert isinstance(caught.value, OSError)
    assert os.listdir(tmp_path) == ["file"]


def test_what_one_worker_is_given_wrong_is_the_same_error_on_all(tmp_path):
    (tmp_path / "file").write_text("")
    fm.save(tmp_path / "one.fms", accuracy())
    for act in (fm.save, fm.load):
        for wrong in (5, "a\0b", tmp_path / "file" / "x"):

            def work(channel, act=act, wrong=wrong):
                act(wrong if channel.rank == 1 else tmp_path / "job", accuracy(), communicator=channel, timeout=20)

            found = together([work] * 3)
            assert all(isinstance(error, fm.FleetMetricsError) for error in found), found
            assert len({(type(error), str(error)) for error in found}) == 1 and "path" in str(found[0])
