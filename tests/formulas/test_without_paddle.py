"""Formulas, batches and metrics on NumPy arrays need no Paddle, and importing them costs next to nothing."""

import os
import subprocess
import sys

#: What a process without Paddle does first: `import paddle` fails there as where it is not installed.
BLOCK_PADDLE = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "paddle":
            raise ModuleNotFoundError("No module named 'paddle'", name="paddle")
sys.meta_path.insert(0, Blocked())
"""


def run(code, **more):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PADDLE_")}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    environment.update(more)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_numpy_path_works_where_paddle_cannot_be_imported():
    values = run(
        BLOCK_PADDLE
        + """
import numpy as np
import fleetmetrics as fm
from fleetmetrics import batch, formulas
p, y = np.array([[0.1], [0.4], [0.35], [0.8]]), [0, 0, 1, 1]
collection = fm.MetricCollection({
    "auc": fm.AUC(), "accuracy": fm.Accuracy(), "loss": fm.LogLoss(), "mae": fm.MeanAbsoluteError(),
    "mse": fm.MeanSquaredError(), "rmse": fm.RootMeanSquaredError(), "count": fm.Count()})
collection.add(p, y, weight=[1, 1, 1, 1], mask=[True] * 4)
values = collection.compute()
total = fm.Sum(); total.add([2**24, 1]); largest = fm.Max(); largest.add([1.5, 3.0]); least = fm.Min(); least.add(-2)
print(values["auc"], values["accuracy"], values["count"], total.compute(), largest.compute(), least.compute())
print(formulas.auc_from_histogram([0, 1, 1], [2, 0, 0]), batch.Batch(p, y).total)
print(fm.sum([1, 2]).tolist()[1], fm.max(3), fm.min([1.0])[0], fm.acc(3, 4), fm.auc([[0, 1]], [[1, 0]]))
print(fm.mae(6.0, 4), fm.mse(16.0, 4), fm.rmse(16.0, 4))
try:
    fm.MeanAbsoluteError().add([float("nan")], [1.0])
except fm.InvalidInputError:
    print("InvalidInputError")
print("paddle" in sys.modules)
"""
    )
    assert values[:6] == ["0.75", "0.75", "4.0", "16777217", "3.0", "-2"]
    assert values[6:] == ["1.0", "4", "2", "3", "1.0", "0.75", "1.0", "1.5", "4.0", "2.0", "InvalidInputError", "False"]


def test_using_the_numpy_path_does_not_import_paddle():
    code = "import sys, fleetmetrics as f; m = f.AUC(); m.add([0.5, 0.25], [1, 0]); m.compute(); m.reset(); f.sum(1)"
    assert run(code + '; print("paddle" in sys.modules)') == ["False"]
