"""The first line of a report: whether the model is better, by how much, where it lost, and whether to release it."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from fleetmetrics.report.words import Words, digits_of
from fleetmetrics.vocabulary import ENTRIES

__all__ = ["change_of", "headline", "worst_slice"]


def headline(result: Mapping[str, Any], words: Words) -> str:
    """The sentence; empty if the result has no metric that is a number.

    Args:
        result: as for `fleetmetrics.report.html`, with ``about``.
        words: of the language.
    """
    numbers, undefined = _metrics(result)
    if not numbers and not undefined:
        return ""
    name = (numbers or undefined)[0]
    parts = [_against(result, name, words) if result["baseline"] else _alone(result, name, words)]
    missing = words(", ", "、").join(each for each in undefined if each != name)
    parts += [words(f"undefined: {missing}", f"无定义：{missing}")] if missing else []
    parts += [*_others(result, name, words), *_lost(result, words), *_where(result, words), *_may_go(result, words)]
    return words("; ", "；").join(parts) + words(".", "。")


def _metrics(result: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The metrics with a single number, defined or not."""
    beside = ("_interval", "_delta")
    names = result["asked"].get("metrics") or [
        name for name in result if name not in ENTRIES and not name.endswith(beside)
    ]
    numbers = [name for name in names if isinstance(result.get(name), (int, float))]
    return numbers, [name for name in names if name in result and result[name] is None]


def change_of(delta: Mapping[str, Any], better: str) -> str:
    """The kind of a difference: "better", "higher", "chance", "few" (too few rows), ...; "seems ...": no interval."""
    value, low, high = (delta.get(each) for each in ("value", "low", "high"))
    if value is None:
        return ""
    if delta.get("needs"):
        return "few"
    if low is not None and high is not None and low <= 0 <= high:
        return "chance"
    if not value:
        return "same"
    said = "higher" if value > 0 else "lower"
    if better:
        said = "better" if said == better else "worse"
    return f"seems {said}" if low is None or high is None else said


def _better(result: Mapping[str, Any], name: str) -> str:
    return str(result["about"].get(name, {}).get("better", ""))


def _interval(
    result: Mapping[str, Any], ends: Mapping[str, Any], digits: int, words: Words, *, sign: bool = False
) -> str:
    """An interval in brackets with its confidence, or the kind of data that is too scarce; empty without one."""
    span, percent = words.span(ends, digits, sign=sign), f"{100 * (result['asked'].get('ci') or 0.95):g}%"
    if ends.get("needs") and not ends.get("verdict"):  # slices have verdicts instead
        return words(f" ({words.few(ends)})", f"（{words.few(ends)}）")
    return words(f" ({percent}: {span})", f"（{percent}：{span}）") if span else ""


def _against(result: Mapping[str, Any], name: str, words: Words) -> str:
    """The change of the first metric."""
    delta = result.get(f"{name}_delta") or {}
    said = change_of(delta, _better(result, name))
    digits = digits_of([], [delta.get("value"), *_width(delta)])
    value = words.signed(delta.get("value"), digits)
    amount = f"{name} {value}{_interval(result, delta, digits, words, sign=True)}"
    return {
        "better": words(f"Better than the baseline: {amount}", f"优于基线：{amount}"),
        "worse": words(f"Worse than the baseline: {amount}", f"劣于基线：{amount}"),
        "higher": words(f"Higher than the baseline: {amount}", f"高于基线：{amount}"),
        "lower": words(f"Lower than the baseline: {amount}", f"低于基线：{amount}"),
        "chance": words(f"Within chance of the baseline: {amount}", f"与基线之差在偶然范围内：{amount}"),
        "few": words(f"Too few to tell from the baseline: {amount}", f"数据太少，无法与基线比较：{amount}"),
        "same": words(f"Same as the baseline: {name} is unchanged", f"与基线相同：{name} 不变"),
        "": words(f"Undecided: {name} is undefined", f"无法判断：{name} 无定义"),
    }.get(said) or {
        "seems better": words(
            f"It looks better than the baseline: {amount}, without an interval", f"似乎优于基线：{amount}，没有区间"
        ),
        "seems worse": words(
            f"It looks worse than the baseline: {amount}, without an interval", f"似乎劣于基线：{amount}，没有区间"
        ),
        "seems higher": words(
            f"It looks higher than the baseline: {amount}, without an interval", f"似乎高于基线：{amount}，没有区间"
        ),
        "seems lower": words(
            f"It looks lower than the baseline: {amount}, without an interval", f"似乎低于基线：{amount}，没有区间"
        ),
    }[said]


def _width(ends: Mapping[str, Any]) -> list[float]:
    low, high = ends.get("low"), ends.get("high")
    return [] if low is None or high is None else [high - low]


def _alone(result: Mapping[str, Any], name: str, words: Words) -> str:
    """The sentence on a model without a baseline."""
    if result[name] is None:
        return words(f"{name} is undefined", f"{name} 无定义") + _why(result, words)
    ends = result.get(f"{name}_interval") or {}
    digits = digits_of([result[name]], _width(ends))
    value, interval = words.number(result[name], digits), _interval(result, ends, digits, words)
    score = result["asked"].get("columns", {}).get("prediction")
    model = f" {score}" if isinstance(score, str) else ""
    return words(f"The model{model} has {name} {value}{interval}", f"模型{model} 的 {name} 为 {value}{interval}")


def _why(result: Mapping[str, Any], words: Words) -> str:
    """Why a metric is undefined, if the numbers of rows and positives show it."""
    data = result.get("data") or {}
    rows, positives = result.get("rows", data.get("rows")), data.get("positives")
    if rows == 0:
        return words(": there are no rows", "：没有行")
    if positives == 0:
        return words(": no row is positive", "：没有正样本")
    return words(": all rows are positive", "：全部行都是正样本") if positives is not None and positives == rows else ""


def _others(result: Mapping[str, Any], name: str, words: Words) -> Iterator[str]:
    """The other metrics that are worse; one of them may decide."""
    worse = [
        each
        for each in result["about"]
        if each != name and change_of(result.get(f"{each}_delta") or {}, _better(result, each)) == "worse"
    ]
    if worse:
        names = words(", ", "、").join(worse)
        yield words(f"worse in {names}", f"{names} 变差")


def _lost(result: Mapping[str, Any], words: Words) -> Iterator[str]:
    """The slice with the largest loss against the baseline, or the statement that no slice has lost."""
    rows = [(by, row) for by, column in (result.get("versus") or {}).items() for row in column["slices"]]
    lost = [each for each in rows if each[1].get("verdict") == "worse"]
    if lost:
        by, row = max(lost, key=lambda each: each[1]["rows"] * abs(each[1]["delta"]))
        key, digits = words.key(row["key"]), digits_of([], [row["delta"], *_width(row)])
        value = words.signed(row["delta"], digits)
        interval = _interval(result, row, digits, words, sign=True)
        yield words(
            f"it loses most in {by} {key}: {row['metric']} {value}{interval}",
            f"损失最大的是 {by} {key}：{row['metric']} {value}{interval}",
        )
    tested = sum(each.get("verdict") not in (None, "too few", "different") for _, each in rows)
    if tested and not lost:
        yield words(
            f"no slice got worse by more than chance ({tested:,} tested)",
            f"检验了 {tested:,} 个切片，变差均未超出偶然范围",
        )


def worst_slice(result: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """The column and slice with the most harm beyond chance; None without such a slice.

    For a metric without a better direction, it is the slice that differs most.
    """
    called = [
        (by, row)
        for by, rows in result["slices"].items()
        for row in rows
        if row.get("verdict") in ("worse", "different")
    ]
    if not called:
        return None
    return max(called, key=lambda each: each[1].get("harm") or each[1]["share"] * abs(each[1]["difference"]))


def _where(result: Mapping[str, Any], words: Words) -> Iterator[str]:
    """The slice that does the most harm, or the statement that no slice does."""
    tested = [row for rows in result["slices"].values() for row in rows if row.get("within_chance") is not None]
    worst = worst_slice(result)
    if worst is None:
        if tested:
            yield words(
                f"no slice is worse than the whole by more than chance ({len(tested):,} tested)",
                f"检验了 {len(tested):,} 个切片，没有一个超出偶然范围地差于整体",
            )
        return
    by, row = worst
    digits = digits_of([row["value"]])
    key = words.key(row["key"])
    value = words.number(row["value"], digits)
    whole = words.number(row["value"] - row["difference"], digits)
    share = f"{100 * row['share']:.3g}%"
    against = words(f"against {whole}", f"整体 {whole}")
    if by in result.get("references", {}):
        against = words(f"against {whole} of all slices together", f"全部切片合起来 {whole}")
    if row["verdict"] == "different":
        yield words(
            f"it differs most in {by} {key}: {row['metric']} {value} {against}, {share} of the rows",
            f"差异最大的切片是 {by} {key}：{row['metric']} {value}，{against}，占 {share} 的行",
        )
        return
    number = sum(each.get("verdict") == "worse" for each in tested)
    more = words(f" (of {number:,} that are worse)", f"（{number:,} 个更差切片之首）") if number > 1 else ""
    yield words(
        f"worst in {by} {key}{more}: {row['metric']} {value} {against}, {share} of the rows",
        f"在 {by} {key}{more} 上最差：{row['metric']} {value}，{against}，占 {share} 的行",
    )


def _may_go(result: Mapping[str, Any], words: Words) -> Iterator[str]:
    """The outcome of the conditions."""
    given = result.get("conditions") or []
    held = [each for each in given if each["fails"]]
    if held:
        names = words(", ", "、").join(each["condition"] for each in held)
        yield words(f"do not release: {names}", f"不可上线：{names}")
    elif given:
        number = len(given)
        said = "the condition does not hold" if number == 1 else f"none of {number} conditions holds"
        yield words(f"ready for release: {said}", f"可以上线：{number} 个拦截条件均不成立")
