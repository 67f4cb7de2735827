"""Time metrics of files against bare reading and against pandas with scikit-learn, and weigh them.

    python benchmarks/files.py [--rows 10000000] [--rounds FACTOR] [--write benchmarks/README.md]
        [--curve docs/project/files.svg]

Every time is that of a fresh process, without its imports: it reads a small file first, and then what is timed; its
memory is the largest resident size that it had. The variants of a round follow each other, and a ratio is that of the
same round. Rows are drawn by a fixed seed: score (float32), label, user (2e5 integers) and slot (50 texts), in 16 files
of Parquet, which lie in the page cache; the columns of texts, in 8 more.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from importlib import metadata
from pathlib import Path
from typing import Any, Callable

import numpy as np
from _report import Target, arguments, machine, quotient, save_chart, table, write

ROWS, FILES, USERS, SLOTS = 10_000_000, 16, 200_000, 50
RESAMPLED, REPLICATES = 2_000_000, 200
STATES = 1000
ADS = 60_000
TEXTS = 50
LINES = 1_000_000  # of JSON
MANY = 30  # times all files
SMALL_FILES = 160, 6250  # and the rows of each
COLUMNS = {"prediction": "score", "label": "label"}
MIB = 2**20
#: The rows of a group of Parquet, and of a batch of bare reading: one across groups takes twice as long for texts.
GROUP = 131_072


def states() -> Any:
    """Metrics of sums; the functions are given to processes by name."""
    import fleetmetrics as fm

    return fm.MetricCollection(
        {"auc": fm.AUC(), "log_loss": fm.LogLoss(), "copc": fm.COPC(), "mae": fm.MeanAbsoluteError(), "n": fm.Count()}
    )


def sliced() -> Any:
    import fleetmetrics as fm

    return fm.MetricCollection({key: fm.Sliced(each, by="slot") for key, each in states().metrics.items()})


def by_user() -> Any:
    import fleetmetrics as fm

    return fm.MetricCollection({"gauc": fm.GAUC(), "ndcg": fm.NDCG(k=10, by="user")})


def exact() -> Any:
    import fleetmetrics as fm

    return fm.ExactAUC()


def by_slot() -> Any:
    import fleetmetrics as fm

    return fm.Sliced(fm.Calibration(), by="slot")


def resampled() -> Any:
    import fleetmetrics as fm

    return fm.Sliced(fm.Bootstrap(fm.AUC(buckets=1024), REPLICATES, ids="user"), by="slot", max_keys=100)


# -- what is timed, each in a process of its own -----------------------------------------------------------


def _evaluated(make: Callable[[], Any], folder: str, more: tuple[str, ...] = (), **settings: Any) -> Any:
    from fleetmetrics import files

    columns = {**COLUMNS, **{name: name for name in more}}
    found = files.evaluate(folder, make, columns, progress=False, **{"processes": 1, **settings})
    return found.metrics.compute()


def _read(folder: str, names: list[str], texts: list[str]) -> None:
    import pyarrow.parquet as pq

    for path in sorted(Path(folder).iterdir()):
        for _ in pq.ParquetFile(path, read_dictionary=texts).iter_batches(batch_size=GROUP, columns=names):
            pass


def _peers(folder: str) -> Any:
    import pandas
    from sklearn.metrics import log_loss, mean_absolute_error, roc_auc_score

    data = pandas.read_parquet(folder, columns=["score", "label"])
    score = data["score"].astype("float64")  # scikit-learn's log loss of float32 is another number
    return {
        "auc": roc_auc_score(data["label"], data["score"]),
        "log_loss": log_loss(data["label"], score),
        "copc": data["label"].sum() / score.sum(),
        "mae": mean_absolute_error(data["label"], score),
        "n": len(data),
    }


def _records(folder: str) -> Any:
    found = _evaluated(by_user, folder, ("user",), complete_by="user", memory=700 * MIB)
    return {**found, "auc": _evaluated(exact, folder)}


def _merged(folder: str) -> Any:
    from fleetmetrics.cli import main

    main(["merge", *sorted(map(str, Path(folder).glob("*.fms")))])


def _judged(folder: str, by: Any = "", metrics: str = "auc,log_loss,copc,mae,count") -> Any:
    import fleetmetrics as fm

    fm.evaluate(folder, label="label", score="score", by=by, metrics=metrics, processes=1)


def _read_texts(folder: str) -> None:
    texts = text_columns()
    _read(folder, ["score", "label", *texts], texts)


def text_columns() -> list[str]:
    return [f"c{place:02}" for place in range(TEXTS)]


def _in_sql(folder: str) -> Any:
    """The exact AUC of each ad, by DuckDB."""
    import duckdb

    ranks = "rank() over (partition by ad order by score) + (count(*) over (partition by ad, score) - 1) / 2.0"
    sums = "count(*) n, sum(label) m, sum(case when label = 1 then k end) s"
    ranked = f"select ad, label, {ranks} k from '{folder}/*.parquet'"
    query = f"select ad, (s - m * (m + 1) / 2.0) / (m * (n - m)) from (select ad, {sums} from ({ranked}) group by ad)"
    duckdb.sql(query + " where m > 0 and m < n").fetchall()


def _lines(folder: str) -> Any:
    return {"clicks": _evaluated(by_slot, folder, ("slot",))}


def _lines_in_sql(folder: str) -> Any:
    """The same columns of JSON Lines, read by DuckDB."""
    import duckdb

    duckdb.sql(f"select slot, sum(label), sum(score), count(*) from '{folder}/*.jsonl' group by slot").fetchall()


VARIANTS: dict[str, Callable[[str], Any]] = {
    "read": lambda folder: _read(folder, ["score", "label"], []),
    "states": lambda folder: _evaluated(states, folder),
    "states of small files": lambda folder: _evaluated(states, folder),
    "read small files": lambda folder: _read(folder, ["score", "label"], []),
    "peers": _peers,
    "sliced": lambda folder: _evaluated(sliced, folder, ("slot",)),
    "records": _records,
    "resampled": lambda folder: _evaluated(resampled, folder, ("user", "slot"), processes=2),
    "merged": _merged,
    "plain": _judged,
    "judged": lambda folder: _judged(folder, "slot"),
    "texts": lambda folder: _judged(folder, text_columns(), "auc"),
    "read texts": _read_texts,
    "ads": lambda folder: _judged(folder, "ad", "auc"),
    "lines": _lines,
    **({"duckdb": _in_sql, "duckdb lines": _lines_in_sql} if importlib.util.find_spec("duckdb") else {}),
}


def child(name: str, folder: str, small: str) -> None:
    """Print the seconds of one variant, the peak of memory, and what it found."""
    warnings.simplefilter("ignore")  # of few buckets in slices
    VARIANTS[name](small)
    start, processor = time.perf_counter(), time.process_time()
    found = VARIANTS[name](folder)
    seconds, processor = time.perf_counter() - start, time.process_time() - processor
    # Not ru_maxrss, which begins with the size of the process that started this one.
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
    found = found if isinstance(found, dict) and name != "resampled" and name != "sliced" else None
    print(json.dumps({"seconds": seconds, "processor": processor, "peak": peak, "found": found}))


def run(name: str, folder: Path, small: Path) -> Any:
    command = [sys.executable, __file__, "--variant", name, str(folder), str(small)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


# -- the data ----------------------------------------------------------------------------------------------


def draw(folder: Path, rows: int, number: int, seed: int = 0, ads: int = 0, texts: int = 0) -> Path:
    """Calibrated scores of a click model, in files of Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    names = pa.array([f"slot {place:02}" for place in range(SLOTS)])
    for place in range(number):
        rng, size = np.random.default_rng([seed, place]), rows // number
        score = (1 / (1 + np.exp(-rng.normal(-2, 1.2, size)))).astype(np.float32)
        slot = pa.DictionaryArray.from_arrays(rng.integers(0, SLOTS, size, np.int32), names)
        columns = {"label": (rng.random(size) < score).astype(np.int64), "score": score}
        columns["user"] = rng.integers(0, USERS, size)
        if ads:
            columns["ad"] = np.array([f"ad-{each:06}" for each in range(ads)])[
                np.minimum(rng.pareto(1.0, size) * ads / 40, ads - 1).astype(np.int64) * 7919 % ads
            ]
        for name in text_columns()[:texts]:
            each = pa.DictionaryArray.from_arrays(rng.integers(0, SLOTS, size, np.int32), names)
            columns[name] = each.cast(pa.string())
        data = pa.table({**columns, "slot": slot.cast(pa.string())})
        pq.write_table(data, folder / f"part-{place:02}.parquet", row_group_size=GROUP)
    return folder


def as_lines(folder: Path, of: Path, rows: int) -> Path:
    """The first rows of a table as JSON Lines."""
    import pyarrow.parquet as pq

    folder.mkdir()
    with open(folder / "a.jsonl", "w") as file:
        for row in pq.read_table(of).slice(0, rows).to_pylist():
            file.write(json.dumps({**row, "title": f"some words of {row['slot']}"}) + "\n")
    return folder


def saved(folder: Path, of: Path, number: int) -> Path:
    """What ``fleetmetrics evaluate --save-state`` writes for the five metrics, once per day."""
    folder.mkdir()
    first = folder / "0.fms"
    asked = ["--label", "label", "--score", "score", "--metrics", "auc,log_loss,copc,mae,count", "--save-state", first]
    command = [sys.executable, "-m", "fleetmetrics", "evaluate", of, *asked]
    subprocess.run(list(map(str, command)), stdout=subprocess.DEVNULL, check=True)
    for place in range(1, number):
        shutil.copy(first, folder / f"{place}.fms")
    return folder


def copied(folder: Path, of: Path, times: int) -> Path:
    """The same files several times, as copies: a file counts once by all of its links."""
    folder.mkdir()
    for copy in range(times):
        for path in of.iterdir():
            shutil.copyfile(path, folder / f"{copy:02}-{path.name}")
    return folder


# -- the table ---------------------------------------------------------------------------------------------

HEADER = ("what", "time", "memory", "against", "ratio, or limit", "to reach", "reached")


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS, help=f"of the larger table ({ROWS:,})")
    parser.add_argument("--curve", type=Path, metavar="FILE", help="draw rows against seconds and memory")
    parser.add_argument("--variant", nargs=3, help="used by the script itself")
    options = parser.parse_args()
    if options.variant:
        child(*options.variant)
        return
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        small, full = draw(home / "small", 10_000, 2), draw(home / "full", options.rows, FILES)
        fewer = draw(home / "resampled", min(RESAMPLED, options.rows), 2, seed=1)
        folders = {name: (full, small) for name in VARIANTS}
        folders["resampled"] = (fewer, small)
        many = draw(home / "ads", min(RESAMPLED, options.rows), 4, seed=2, ads=ADS)
        folders["ads"] = folders["duckdb"] = (many, draw(home / "few ads", 10_000, 2, ads=ADS))
        wide = draw(home / "wide", options.rows, 8, seed=3, texts=TEXTS)
        folders["texts"] = folders["read texts"] = (wide, draw(home / "little wide", 10_000, 2, texts=TEXTS))
        lines_of = as_lines(home / "lines", full, LINES), as_lines(home / "few lines", small, 1000)
        folders["lines"] = folders["duckdb lines"] = lines_of
        split = draw(home / "small files", SMALL_FILES[0] * SMALL_FILES[1], SMALL_FILES[0], seed=4)
        folders["states of small files"] = folders["read small files"] = (split, small)
        folders = {name: each for name, each in folders.items() if name in VARIANTS}
        folders["merged"] = (saved(home / "states", small, STATES), saved(home / "few states", small, 2))
        rounds = max(1, round(3 * options.rounds))
        found = {name: [] for name in VARIANTS}
        for _ in range(rounds):
            for name, given in folders.items():
                found[name].append(run(name, *given))
        check(found)
        sizes = {options.rows: _medians(found["states"])}
        for times in (0.1, 10, MANY):
            rows = int(options.rows * times)
            folder = draw(home / f"{times}", rows, FILES) if times < 1 else copied(home / f"{times}", full, int(times))
            sizes[rows] = _medians([run("states", folder, small)])
    versions = {name: metadata.version(name) for name in ("numpy", "pyarrow", "pandas", "scikit-learn")}
    text = f"{machine(versions)}\n\n{table(HEADER, lines(found, options.rows, sizes))}\n\n{curve(sizes)}"
    print(text)
    if options.write:
        write(options.write, "files", text)
    if options.curve:
        picture(sizes, options.curve)


def check(found: dict[str, list[Any]]) -> None:
    """The numbers are those of scikit-learn; AUC in 4,096 buckets to five digits."""
    ours, theirs, records = (found[name][0]["found"] for name in ("states", "peers", "records"))
    for key, value in theirs.items():
        np.testing.assert_allclose(ours[key], value, rtol=1e-5 if key == "auc" else 1e-9)
    np.testing.assert_allclose(records["auc"], theirs["auc"], rtol=1e-12)


def _medians(runs: list[Any]) -> tuple[float, float]:
    return float(np.median([each["seconds"] for each in runs])), float(np.median([each["peak"] for each in runs]))


def lines(found: dict[str, list[Any]], rows: int, sizes: dict[int, tuple[float, float]]) -> list[list[str]]:
    times = {name: np.array([each["seconds"] for each in runs]) for name, runs in found.items()}

    def ratio(name: str, other: str, target: Target) -> list[str]:
        ratios = times[other] / times[name] if target.sign == ">=" else times[name] / times[other]
        side = "faster" if target.sign == ">=" else "as long"
        return [f"{quotient(ratios)} x {side}", str(target), _yes(target.reached(float(np.median(ratios))))]

    def processor(name: str, other: str, target: Target) -> list[str]:
        ratios = np.array([[each["processor"] for each in found[which]] for which in (name, other)])
        found_ratios = ratios[0] / ratios[1]
        reached = target.reached(float(np.median(found_ratios)))
        return [f"{quotient(found_ratios)} x the processor time", str(target), _yes(reached)]

    def limit(name: str, seconds: float) -> list[str]:
        return [f"{np.median(times[name]):.2f} s", f"at most {seconds:g} s", _yes(np.median(times[name]) <= seconds)]

    def memory(value: float, most: float) -> list[str]:
        return [f"{value:,.0f} MiB", f"at most {most:,.0f} MiB", _yes(value <= most)]

    peak = {name: _medians(runs)[1] for name, runs in found.items()}
    cells = {name: [f"{np.median(times[name]):.2f} s", f"{peak[name]:,.0f} MiB"] for name in found}
    what = f"AUC, log loss, COPC, MAE and count of {rows:,} rows"
    largest = max(sizes)
    return [
        [what, *cells["states"], "pandas and scikit-learn", *ratio("states", "peers", Target(">=", 8))],
        [what, *cells["states"], "reading the two columns", *ratio("states", "read", Target("<=", 6))],
        [what, *cells["states"], "reading the two columns", *processor("states", "read", Target("<=", 2.5))],
        [
            f"the same of {SMALL_FILES[0] * SMALL_FILES[1]:,} rows in {SMALL_FILES[0]} files",
            *cells["states of small files"],
            "reading the two columns",
            *processor("states of small files", "read small files", Target("<=", 2.5)),
        ],
        [what, *cells["states"], "", *memory(peak["states"], 400)],
        [
            f"`evaluate`, the same by {SLOTS} texts, with verdicts",
            *cells["judged"],
            "`evaluate` without slices",
            *ratio("judged", "plain", Target("<=", 1.5)),
        ],
        *(
            [
                [
                    f"`evaluate`, AUC by {ADS:,} texts, {RESAMPLED:,} rows",
                    *cells["ads"],
                    "DuckDB's SQL",
                    *ratio("ads", "duckdb", Target(">=", 3)),
                ]
            ]
            if "duckdb" in found
            else []
        ),
        *(
            [
                [
                    f"calibration by {SLOTS} texts, {min(LINES, rows):,} lines of JSON",
                    *cells["lines"],
                    "DuckDB's sums by text",
                    *processor("lines", "duckdb lines", Target("<=", 3)),
                ]
            ]
            if "duckdb lines" in found
            else []
        ),
        [
            f"`evaluate`, AUC by {TEXTS} columns of {SLOTS} texts, with verdicts",
            *cells["texts"],
            f"reading the {TEXTS + 2} columns",
            *processor("texts", "read texts", Target("<=", 3.5)),
        ],
        [f"`evaluate`, AUC by {TEXTS} columns of {SLOTS} texts", *cells["texts"], "", *memory(peak["texts"], 1024)],
        [
            f"the first five by {SLOTS} texts",
            *cells["sliced"],
            "the first five",
            *ratio("sliced", "states", Target("<=", 6)),
        ],
        ["GAUC, NDCG@10 and exact AUC", *cells["records"], "", *limit("records", 4)],
        ["GAUC, NDCG@10 and exact AUC", *cells["records"], "", *memory(peak["records"], 700)],
        [
            f"the first five of {largest:,} rows",
            f"{sizes[largest][0]:.2f} s",
            f"{sizes[largest][1]:,.0f} MiB",
            f"{rows:,} rows",
            *memory(sizes[largest][1], 1.2 * sizes[rows][1]),
        ],
        [f"merge {STATES:,} saved states of the first five", *cells["merged"], "", *limit("merged", 2)],
        [
            f"AUC by slot, {REPLICATES} replicates by user, {RESAMPLED:,} rows",
            *cells["resampled"],
            "",
            *limit("resampled", 5),
        ],
    ]


def _yes(reached: Any) -> str:
    return "yes" if reached else "no"


def curve(sizes: dict[int, tuple[float, float]]) -> str:
    rows = [[f"{rows:,}", f"{seconds:.2f} s", f"{peak:,.0f} MiB"] for rows, (seconds, peak) in sorted(sizes.items())]
    return table(("rows, five metrics, one process", "time", "memory"), rows)


def picture(sizes: dict[int, tuple[float, float]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "fleetmetrics"
    from matplotlib import pyplot as plt

    rows = sorted(sizes)
    figure, (left, right) = plt.subplots(1, 2, figsize=(7, 2.8))
    left.plot(rows, [sizes[each][0] for each in rows], "o-C0")
    left.set(xscale="log", yscale="log", xlabel="rows", ylabel="seconds")
    right.plot(rows, [sizes[each][1] for each in rows], "o-C1")
    right.set(xscale="log", ylim=(0, None), xlabel="rows", ylabel="MiB, at most")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.tight_layout()
    save_chart(figure, path)


if __name__ == "__main__":
    main()
