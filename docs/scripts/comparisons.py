"""Compare every metric with scikit-learn or NumPy on random samples, as one process and split among workers.

    python docs/scripts/comparisons.py [--seeds 1] [--processes 1] [--metric NAME]

Each case of the tests' contract is drawn with every pair of dtypes that it takes, with and without weights and a mask,
for each seed. One metric is fed all samples; then the samples are split at random among up to seven workers, whose
metrics are merged. Both values must be the reference's: bit for bit where nothing is rounded, else within the case's
tolerance.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Iterator

import numpy as np
import sklearn
from _catalogue import DOCS

sys.path.insert(0, str(DOCS.parent))

from tests import contract
from tests.contract import CASES, DTYPES, WEIGHTS, batches, draw, expected, feed, same


def values_of(name: str, data: contract.Data, rng: np.random.Generator) -> list[object]:
    """The value of one process, and that of random workers."""
    rows = len(data.prediction)
    cuts = [0, *np.sort(rng.integers(0, rows + 1, rng.integers(1, 7))), rows]
    values = []
    for shares in ([data], [data.rows(*cut) for cut in itertools.pairwise(cuts)]):
        total = CASES[name].make()
        for share in shares:
            worker = CASES[name].make()
            feed(worker, batches(share, size=int(rng.integers(1, 64))), "numpy")
            total.merge(worker)
        values.append(total.compute())
    return values


def combinations(name: str, seeds: int) -> Iterator[tuple[tuple[str, str], Any, bool, int]]:
    """What a case is drawn with: dtypes, weight, mask and seed. Each makes two comparisons."""
    for dtypes, weight, mask, seed in itertools.product(DTYPES, WEIGHTS, (False, True), range(seeds)):
        if np.dtype(dtypes[0]).kind in CASES[name].kinds:
            yield dtypes, weight, mask, seed


def compared(name: str, seeds: int) -> tuple[Counter[str], list[str]]:
    """How many values of a case are right and wrong, and the wrong ones in words."""
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for dtypes, weight, mask, seed in combinations(name, seeds):
        data = draw(name, dtypes, weight, mask, seed=seed + 1)
        exact, reference = contract.is_exact_value(name, data, weight), expected(name, data)
        for value in values_of(name, data, np.random.default_rng([seed, len(name)])):
            right = same(value, reference, exact, CASES[name].tolerance)
            counts["right" if right else "wrong"] += 1
            if not right:
                which = f"{name}, {'/'.join(dtypes)}, weight {weight}, mask {mask}, seed {seed + 1}"
                wrong.append(f"{which}: {value!r:.200}, reference {reference!r:.200}")
    return counts, wrong


def prepare() -> None:
    """In each process: no warnings, since much is undefined of small samples, and no checks of what is drawn here."""
    warnings.simplefilter("ignore")
    sklearn.set_config(skip_parameter_validation=True, assume_finite=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1, help="how often each combination is drawn")
    parser.add_argument("--processes", type=int, default=1, help="how many share the cases")
    parser.add_argument("--metric", default="", help="compare the cases of this class alone")
    given = parser.parse_args()
    counts: Counter[str] = Counter()
    names = [name for name, case in CASES.items() if given.metric in ("", type(case.make()).__name__)]
    with ProcessPoolExecutor(given.processes, initializer=prepare) as pool:
        for of_case, wrong in pool.map(compared, names, itertools.repeat(given.seeds)):
            counts += of_case
            print(*wrong, sep="\n", end="\n" if wrong else "", flush=True)
    print(f"{len(names)} cases: {sum(counts.values()):,} comparisons, {counts['wrong']} differ")
    return int(counts["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
