"""Time ranking metrics, texts, small batches and a collection of twenty, against their peers and the bare bytes.

And weigh retrieval over features, in a process of its own, and time boxes and masks against the library that computes
them.

    python benchmarks/catalogue.py [--rounds FACTOR] [--write benchmarks/README.md]

The variants of a line take turns, round after round, each round beginning with another one, in the same process; torch
has one thread. For the exchange two workers are lined up before each call, as in benchmarks/sync.py.
"""

from __future__ import annotations

import functools
import time
import warnings
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Iterator

import numpy as np
from _job import Gate, Place, place, report, run
from _report import HEADER, Target, arguments, in_turn, machine, row, seconds, table, write

WORKERS = 2
USERS, EACH = 20_000, 10
BATCH = 32
#: Rounds of each part; one round of the small batches calls `add` this often.
ROUNDS = {"queries": 5, "texts": 9, "objects": 9, "add": 60, "exchange": 300}
CALLS = 200


def main() -> None:
    options = arguments(__doc__.splitlines()[0]).parse_args()
    here = place()
    if here is not None:
        exchange(here, max(3, round(options.rounds * ROUNDS["exchange"])))
        return
    import torch
    import torcheval
    import torchmetrics

    import fleetmetrics

    warnings.simplefilter("ignore", fleetmetrics.UndefinedMetricWarning)  # users of one class only
    torch.set_num_threads(1)
    versions = {
        "NumPy": np.__version__,
        "torch": torch.__version__,
        "torchmetrics": torchmetrics.__version__,
        "torcheval": torcheval.__version__,
    }
    rows = [*of_queries(options.rounds), *of_texts(options.rounds), *of_add(options.rounds), of_sampler(options.rounds)]
    findings = run(__file__, WORKERS, arguments=["--rounds", str(options.rounds)])
    rows += [*of_exchange(findings), of_retrieval(), *of_objects(options.rounds)]
    text = f"{machine(versions)}\n\n{table(HEADER, rows)}"
    print(text)
    if options.write:
        write(options.write, "catalogue", text)


# Ranked answers and users


def of_queries(factor: float) -> list[list[str]]:
    """All answers in one batch, and the value: 20,000 queries or users with 10 samples each."""
    import torch
    from torchmetrics.retrieval import RetrievalAUROC, RetrievalNormalizedDCG

    import fleetmetrics

    rng = np.random.default_rng(0)
    query = np.repeat(np.arange(USERS), EACH)
    score, label = rng.random(query.size, np.float32), rng.integers(0, 2, query.size)
    tensors = [torch.from_numpy(each) for each in (score, label, query)]

    def ours(metric: Any, column: str) -> float:
        metric.add(score, label, **{column: query})
        return float(metric.compute())

    def theirs(metric: Any) -> float:
        metric.update(tensors[0], tensors[1], indexes=tensors[2])
        return float(metric.compute())

    pairs = {
        "NDCG": (
            "`RetrievalNormalizedDCG`",
            lambda: ours(fleetmetrics.NDCG(), "query"),
            lambda: theirs(RetrievalNormalizedDCG(empty_target_action="skip")),
        ),
        "UAUC": (
            "`RetrievalAUROC`",
            lambda: ours(fleetmetrics.UAUC(), "user"),
            lambda: theirs(RetrievalAUROC(empty_target_action="skip")),
        ),
        "GAUC": ("`RetrievalAUROC`", lambda: ours(fleetmetrics.GAUC(), "user"), None),
    }
    rows, last = [], None
    for name, (against, mine, peer) in pairs.items():
        last = peer or last
        if peer is not None:  # in float32, and a user with positive samples only counts as 0 there: one in 2**10
            np.testing.assert_allclose(mine(), peer(), rtol=2**-9)
        times = in_turn({"ours": mine, "theirs": last}, round(factor * ROUNDS["queries"]))
        what = f"`{name}`, {USERS:,} of {EACH} samples"
        rows.append(row(what, f"torchmetrics {against}", times["ours"], times["theirs"], Target(">=", 50)))
    return rows


# Texts


def of_texts(factor: float) -> list[list[str]]:
    """Error rates, edit distances and entities, against the libraries whose numbers they are."""
    from rapidfuzz.distance import Levenshtein
    from seqeval.metrics import f1_score

    import fleetmetrics as fm

    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz    "))
    said = ["".join(rng.choice(letters, rng.integers(80, 240))) for _ in range(100_000)]
    heard = [f"{text[:10]}q{text[12:40]}{text[42:]}" for text in said]
    tags = ["O", "O", "O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    true = [rng.choice(tags, rng.integers(5, 40)).tolist() for _ in range(5_000)]
    predicted = [[tag if rng.random() < 0.9 else "O" for tag in row] for row in true]

    def in_batches(size: int, *texts: Any) -> Iterator[list[Any]]:
        return ([part[start : start + size] for part in texts] for start in range(0, len(texts[0]), size))

    def ours(metric: Any, size: int, *texts: Any) -> float:
        for batch in in_batches(size, *texts):
            metric.add(*batch)
        return float(metric.compute())

    def rate(size: int, split: Any = None) -> float:
        edits = length = 0
        for batch in in_batches(size, heard, said):
            one, other = batch if split is None else ([*map(split, part)] for part in batch)
            edits, length = edits + sum(map(Levenshtein.distance, one, other)), length + sum(map(len, other))
        return edits / length

    def normalized(size: int) -> float:
        batches = in_batches(size, heard, said)
        return sum(sum(map(Levenshtein.normalized_distance, *batch)) for batch in batches) / len(said)

    lines = []
    for size, how in ((1_000, "in batches of 1,000"), (100_000, "at once")):
        for kind, peer in (
            (fm.CharErrorRate, rate),
            (fm.WordErrorRate, functools.partial(rate, split=str.split)),
            (fm.NormalizedEditDistance, normalized),
        ):
            mine = functools.partial(lambda kind, size: ours(kind(), size, heard, said), kind, size)
            what = f"`{kind.__name__}`, 100,000 lines {how}"
            lines.append((what, "rapidfuzz, the same", mine, functools.partial(peer, size), Target("<=", 1.2)))
    lines.append(
        (
            "`EntityF1`, 5,000 sentences",
            "seqeval `f1_score`",
            lambda: ours(fm.EntityF1(), 1_000, predicted, true),
            lambda: f1_score(true, predicted),
            Target(">=", 5),
        )
    )
    rows = []
    for what, against, mine, peer, target in lines:
        np.testing.assert_allclose(mine(), peer(), rtol=1e-12)
        times = in_turn({"ours": mine, "theirs": peer}, round(factor * ROUNDS["texts"]))
        rows.append(row(what, against, times["ours"], times["theirs"], target))
    return rows


# Retrieval

#: The most bytes of the process.
MOST = 1e9


def retrieved(queries: int, items: int, width: int) -> tuple[float, float]:
    """The seconds of the value, from the arrays, and the peak of memory of this process in bytes."""
    import fleetmetrics

    rng = np.random.default_rng(0)
    means = rng.normal(size=(items // 20, width)).astype(np.float32)
    metric = fleetmetrics.Retrieval()
    start = time.perf_counter()
    for side, count in ((metric.gallery, items), (metric, queries)):
        for _ in range(count // 1000):
            labels = rng.integers(0, len(means), 1000)
            side.add(means[labels] + 2 * rng.normal(size=(1000, width)).astype(np.float32), labels)
    metric.compute()
    status = Path("/proc/self/status").read_text()
    return time.perf_counter() - start, 1024 * int(status.split("VmHWM:")[1].split()[0])


def of_retrieval() -> list[str]:
    """The peak of memory of a process that computes mAP, mINP and recall of 10,000 queries of a gallery of 100,000."""
    queries, items, width = 10_000, 100_000, 128
    with get_context("spawn").Pool(1) as pool:
        took, peak = pool.apply(retrieved, (queries, items, width))
    what = f"`Retrieval`, {queries:,} queries of {items:,} pictures, {width} features"
    reached = "yes" if peak <= MOST else "no"
    return [what, f"{took:.0f} s", "", "", "1", f"{peak / 1e6:,.0f} MB of memory", "at most 1,000 MB", reached]


# Boxes and masks

IMAGES, BOXES = 300, 100
MASKS, HEIGHT, WIDTH = 20, 240, 320


def boxes(rng: np.random.Generator, labels: int = 80) -> tuple[dict[str, Any], dict[str, Any]]:
    """The predicted and the true boxes of an image."""
    corners, sizes = rng.random((10, 2)) * 500, rng.random((10, 2)) * 120 + 4
    near, label = rng.integers(0, 10, BOXES), rng.integers(0, labels, 10)
    shifted = corners[near] + rng.normal(size=(BOXES, 2)) * 15
    found = {"boxes": np.hstack([shifted, shifted + sizes[near]]), "scores": rng.random(BOXES), "labels": label[near]}
    return found, {"boxes": np.hstack([corners, corners + sizes]), "labels": label}


def masks(rng: np.random.Generator, labels: int = 10) -> tuple[dict[str, Any], dict[str, Any]]:
    """The predicted and the true masks of an image: ellipses."""
    centers, radii = rng.random((5, 2)) * (HEIGHT, WIDTH), rng.random((5, 2)) * 60 + 8
    near, label = rng.integers(0, 5, MASKS), rng.integers(0, labels, 5)
    others = centers[near] + rng.normal(size=(MASKS, 2)) * 3, radii[near] * rng.uniform(0.8, 1.2, (MASKS, 1))
    found = {"masks": ellipses(*others), "scores": rng.random(MASKS), "labels": label[near]}
    return found, {"masks": ellipses(centers, radii), "labels": label}


def ellipses(centers: np.ndarray, radii: np.ndarray) -> np.ndarray:
    """Booleans ``[n, height, width]``."""
    rows, columns = np.ogrid[:HEIGHT, :WIDTH]
    forms = zip(centers, radii)
    return np.array([((rows - y) / h) ** 2 + ((columns - x) / w) ** 2 <= 1 for (y, x), (h, w) in forms])


def encoded(image: dict[str, Any]) -> dict[str, Any]:
    """The same image, with masks as run lengths."""
    from faster_coco_eval.core import mask as coder

    return {**image, "masks": [coder.encode(np.asfortranarray(mask, np.uint8)) for mask in image["masks"]]}


def in_files(found: list[Any], true: list[Any]) -> tuple[list[Any], list[Any]]:
    """The true and the predicted objects, as in COCO's files."""
    from faster_coco_eval.core import mask as coder

    truth: list[Any] = []
    answers: list[Any] = []
    for image, (mine, its) in enumerate(zip(found, true)):
        for side, listed in ((its, truth), (mine, answers)):
            for n, label in enumerate(side["labels"].tolist()):
                if "masks" in side:
                    rle = side["masks"][n]
                    form, area = {"segmentation": rle, "bbox": coder.toBbox(rle).tolist()}, float(coder.area(rle))
                    form = {"segmentation": rle} if side is mine else form
                else:
                    x, y, x2, y2 = side["boxes"][n].tolist()
                    form, area = {"bbox": [x, y, x2 - x, y2 - y]}, (x2 - x) * (y2 - y)
                more = {"score": float(mine["scores"][n])} if side is mine else {"area": area, "iscrowd": 0}
                listed.append({"id": len(listed) + 1, "image_id": image, "category_id": label, **form, **more})
    return truth, answers


def of_the_library(truth: list[Any], answers: list[Any], iou_type: str) -> float:
    """COCO's average precision by faster-coco-eval alone."""
    from faster_coco_eval import COCO, COCOeval_faster

    images = range(truth[-1]["image_id"] + 1)
    data = COCO()
    data.dataset = {"images": [{"id": n, "height": HEIGHT, "width": WIDTH} for n in images], "annotations": truth}
    data.dataset["categories"] = [{"id": label} for label in range(80)]
    data.createIndex()
    loaded = data.loadRes([dict(answer) for answer in answers])
    evaluation = COCOeval_faster(data, loaded, iou_type, print_function=lambda *_: None)
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return float(evaluation.stats[0])


def of_objects(factor: float) -> list[list[str]]:
    """COCO's average precision of boxes and of masks, against the library from the dicts of its files."""
    import fleetmetrics

    def ours(found: list[Any], true: list[Any], iou_type: str) -> float:
        metric = fleetmetrics.MeanAveragePrecision(iou_type=iou_type)
        for start in range(0, len(found), 10):
            batch = slice(start, start + 10)
            metric.add(found[batch], true[batch], ids=range(start, start + 10))
        return float(metric.compute()["map"])

    rng, rows = np.random.default_rng(0), []
    of_boxes = [[*side] for side in zip(*(boxes(rng) for _ in range(IMAGES)))]
    booleans = [[*side] for side in zip(*(masks(rng) for _ in range(IMAGES // 3)))]
    run_lengths = [[*map(encoded, side)] for side in booleans]
    ready = {"bbox": in_files(*of_boxes), "segm": in_files(*run_lengths)}

    def encoding() -> float:
        return of_the_library(*in_files(*([*map(encoded, side)] for side in booleans)), "segm")

    for what, sides, iou_type, theirs in (
        (f"{IMAGES} images of {BOXES} boxes", of_boxes, "bbox", None),
        (f"{IMAGES // 3} images of {MASKS} masks, run lengths", run_lengths, "segm", None),
        (f"{IMAGES // 3} images of {MASKS} masks, booleans", booleans, "segm", encoding),
    ):
        alone = theirs or functools.partial(of_the_library, *ready[iou_type], iou_type)
        variants = {"ours": functools.partial(ours, *sides, iou_type), "theirs": alone}
        assert variants["ours"]() == variants["theirs"]()
        times = in_turn(variants, round(factor * ROUNDS["objects"]))
        against = f"faster-coco-eval alone{', which encodes them' if theirs else ''}"
        rows.append(row(f"`MeanAveragePrecision`, {what}", against, *times.values(), Target("<=", 1.2)))
    return rows


# Small batches


def of_add(factor: float) -> list[list[str]]:
    """`add` of 32 samples, against `update` of the same metric."""
    import torch
    from torcheval import metrics as peers

    import fleetmetrics as fm

    rng = np.random.default_rng(0)
    p, y = rng.random(BATCH, np.float32), rng.integers(0, 2, BATCH)
    values = rng.random(BATCH, np.float32)
    tp, ty, tv = torch.from_numpy(p), torch.from_numpy(y), torch.from_numpy(values)
    tf = ty.to(torch.float32)
    pairs = {
        "MeanSquaredError": (fm.MeanSquaredError(), (p, values), peers.MeanSquaredError(), (tp, tv)),
        "Accuracy": (fm.Accuracy(), (p, y), peers.BinaryAccuracy(), (tp, ty)),
        "Precision": (fm.Precision(), (p, y), peers.BinaryPrecision(), (tp, ty)),
        "F1": (fm.F1(), (p, y), peers.BinaryF1Score(), (tp, ty)),
        "ConfusionMatrix": (fm.ConfusionMatrix(), (p, y), peers.BinaryConfusionMatrix(), (tp, ty)),
        "NormalizedEntropy": (fm.NormalizedEntropy(), (p, y), peers.BinaryNormalizedEntropy(), (tp, tf)),
        "Calibration": (fm.Calibration(), (p, y), peers.WeightedCalibration(), (tp, tf)),
        "R2Score": (fm.R2Score(), (p, values), peers.R2Score(), (tp, tv)),
        "Mean": (fm.Mean(), (values,), peers.Mean(), (tv,)),
    }
    rows = []
    for name, (mine, given, peer, theirs) in pairs.items():

        def add(mine: Any = mine, given: Any = given) -> None:
            for _ in range(CALLS):
                mine.add(*given)

        def update(peer: Any = peer, theirs: Any = theirs) -> None:
            for _ in range(CALLS):
                peer.update(*theirs)

        times = in_turn({"ours": add, "theirs": update}, round(factor * ROUNDS["add"]))
        own, other = times["ours"] / CALLS, times["theirs"] / CALLS
        against = f"torcheval `{type(peer).__name__}.update`"
        rows.append(row(f"`{name}.add` of {BATCH}", against, own, other, Target(">=", 1)))
    return rows


def of_sampler(factor: float) -> list[str]:
    """`add` of 32 samples that a sampler deals: how much longer it takes to know that all of them count."""
    from types import SimpleNamespace

    import fleetmetrics as fm

    rng = np.random.default_rng(0)
    p, y = rng.random(BATCH, np.float32), rng.integers(0, 2, BATCH)
    large = range(2**31)  # more samples than are added here
    dealt = {"dataset": large, "batch_size": BATCH, "nranks": 3, "local_rank": 0, "shuffle": False, "drop_last": False}
    metrics = {"with": fm.Accuracy(sampler=SimpleNamespace(epoch=0, **dealt)), "without": fm.Accuracy()}

    def adding(metric: Any) -> None:
        for _ in range(CALLS):
            metric.add(p, y)

    variants = {name: (lambda metric=metric: adding(metric)) for name, metric in metrics.items()}
    times = {name: each / CALLS for name, each in in_turn(variants, round(factor * ROUNDS["add"])).items()}
    more = (times["with"] - times["without"]) * 1e6
    low, middle, high = np.percentile(more, (10, 50, 90))
    found = [f"{middle:.1f} ({low:.1f} - {high:.1f}) us more", "at most 1 us", "yes" if middle <= 1 else "no"]
    what = f"`Accuracy(sampler=...).add` of {BATCH}"
    return [what, seconds(times["with"]), "without", seconds(times["without"]), str(len(more)), *found]


# Twenty metrics in a collection


def twenty() -> Any:
    """Twenty metrics of a click-through model."""
    import fleetmetrics as fm

    kinds = [
        fm.AUC, fm.AveragePrecision, fm.KolmogorovSmirnov, fm.LogLoss, fm.NormalizedEntropy, fm.Accuracy, fm.Precision,
        fm.Recall, fm.F1, fm.CohenKappa, fm.MatthewsCorrelation, fm.ClickThroughRate, fm.PredictedClickThroughRate,
        fm.Calibration, fm.COPC, fm.BrierScore, fm.ExpectedCalibrationError, fm.MeanAbsoluteError,
        fm.RootMeanSquaredError, fm.Count,
    ]  # fmt: skip
    return fm.MetricCollection({kind.__name__: kind() for kind in kinds})


def exchange(here: Place, rounds: int) -> None:
    """On a worker, in turn: the collection's values, its exchange alone, and that of one array of the same size.

    And the values over a group of all workers, in another order.
    """
    import fleetmetrics

    channel = fleetmetrics.get_communicator()
    metrics = twenty()
    rng = np.random.default_rng(here.rank)
    metrics.add(rng.random(100_000), rng.integers(0, 2, 100_000))
    size = sum(state.read().nbytes for state in metrics._states())
    words = rng.integers(0, 2**15, size // 8)  # which cross the wire in two bytes each, as the histogram's counts do
    gate = Gate(here.rank, here.workers)
    group = channel._among(tuple(reversed(range(here.workers))))

    def exchanged() -> Any:
        with channel.call("twenty") as call:
            return call.reduce([state.block() for state in metrics._states()])

    variants = {
        "compute": metrics.compute,
        "group": lambda: metrics.compute(communicator=group),
        "exchange": exchanged,
        "bare": lambda: channel.all_reduce(words),
    }
    names = list(variants)
    times: dict[str, list[list[float]]] = {name: [] for name in variants}
    for number in range(-5, rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            gate.wait()
            start = time.perf_counter()
            variants[name]()
            end = time.perf_counter()
            if number >= 0:
                times[name].append([start, end])
    gate.wait()
    report({"times": times, "bytes": size, "metrics": len(metrics.metrics)})


def of_exchange(findings: list[dict[str, Any]]) -> list[list[str]]:
    def duration(name: str) -> np.ndarray:
        spans = np.array([worker["times"][name] for worker in findings])
        return np.asarray(spans[:, :, 1].max(axis=0) - spans[:, :, 0].max(axis=0))

    number, bare = findings[0]["metrics"], duration("bare")
    against = f"all-reduce of their {findings[0]['bytes']:,} bytes"
    alone = row(
        f"the exchange of {number} metrics, {WORKERS} workers", against, duration("exchange"), bare, Target("<=", 1.5)
    )
    whole = row(
        f"`compute` of all {number}, with their formulas", against, duration("compute"), bare, Target("<=", 1.5)
    )
    grouped = row(
        f"`compute(group=...)` of all {number}, over a group of all workers",
        "the whole job",
        duration("group"),
        duration("compute"),
        Target("<=", 1.05),
    )
    return [alone, [*whole[:-2], "", ""], grouped]


if __name__ == "__main__":
    main()
