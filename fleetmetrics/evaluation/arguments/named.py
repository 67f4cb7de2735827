"""Metrics by name, as strings: ``auc``, ``ndcg@10``, ``pr=auc:curve=PR``."""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import re
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

import fleetmetrics
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.support.hints import hint_of_name
from fleetmetrics.support.vocabulary import argument, snake_case
from fleetmetrics.words.catalogue import entries, owners

__all__ = ["TASKS", "Named", "described", "kinds", "listed", "named", "separated"]

#: The default metrics of a task.
TASKS = {
    "binary": "auc,log_loss,calibration,average_precision,normalized_entropy,expected_calibration_error,brier_score,"
    "click_through_rate",
    "multiclass": "accuracy,balanced_accuracy,f1=f1:average=macro,matthews_correlation",
    "regression": "mean_absolute_error,root_mean_squared_error,mean_bias,r2_score,pearson_correlation",
    "ranking": "ndcg@10,map,mrr,hit_rate@10,recall@10",
    "counterfactual": "ips,snips,effective_sample_size",
}
TASKS["multilabel"] = TASKS["binary"]
_SHORT = (
    "ap=average_precision ctr=click_through_rate ece=expected_calibration_error ks=kolmogorov_smirnov mcc="
    "matthews_correlation mae=mean_absolute_error mape=mean_absolute_percentage_error mse=mean_squared_error "
    "ne=normalized_entropy r2=r2_score rmse=root_mean_squared_error"
)
_SPEC = re.compile(r"(?:(?P<key>[\w.-]+)=)?(?P<name>\w+)(?:@(?P<k>\d+))?(?P<settings>(?::\w+=[^:]+)*)")
#: The commas between metrics, without those within brackets.
_COMMA = r",(?![^\[(]*[\])])"


class Named(NamedTuple):
    """A requested metric.

    Args:
        text: ``key=name@k:setting=value``; only the name is required.
        key: its key in the result.
        name: the name of its class.
        k: the number of first answers; None: the metric has no k, or has it as a setting.
        settings: as strings.
    """

    text: str
    key: str
    name: str
    k: int | None
    settings: dict[str, str]

    def metric(self, task: str = "binary", classes: int | None = None, **usual: Any) -> Any:
        """A new metric; ``usual`` are settings that its text does not give, for the classes that have them."""
        with _errors_of(argument("metrics")):
            kind = self.kind()
        parameters = kind.__signature__.parameters
        usual["by"] = "user"
        if task == "multiclass":
            usual.update(task="multiclass", num_classes=classes)
        settings = {name: value for name, value in usual.items() if name in parameters}
        settings.update((name, _value_of(text)) for name, text in self.settings.items())
        if self.k is not None:
            settings.setdefault("k", self.k)
        needed = (name for name, parameter in parameters.items() if parameter.default is parameter.empty)
        missing = [name for name in needed if name not in settings]
        with _errors_of(argument("metrics")):
            if missing:
                raise InvalidInputError(f"{self.text} needs {missing[0]}, {self.text}:{missing[0]}=VALUE")
            with _errors_of(self.text):
                return kind(name=self.key, **settings)

    def kind(self) -> Any:
        """The class; InvalidInputError for an unknown name."""
        name, classes = self.name.lower(), kinds()
        full_names = dict(pair.split("=") for pair in _SHORT.split())
        kind = classes.get(f"{name}_at_k" if self.k is not None else "") or classes.get(full_names.get(name, name))
        if kind is None:
            of_pictures = _in_folder("vision").get(name)
            if of_pictures:
                how = f"use fleetmetrics.{of_pictures} in Python, with add and compute"
                raise InvalidInputError(f"{self.name!r} is of boxes, regions or features, which no columns hold; {how}")
            hint = hint_of_name(name, classes) or "; `fleetmetrics metrics` lists them"
            raise InvalidInputError(f"there is no metric {self.name!r}{hint}")
        return getattr(fleetmetrics, kind)


def _value_of(text: str) -> Any:
    """The value of a setting: a literal of Python, or the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


@functools.lru_cache(maxsize=1)
def kinds() -> dict[str, str]:
    """The classes of the catalogue by the names of the command line, without imports."""
    return {name: kind for name, kind in _in_folder("metrics").items() if kind != "Throughput"}


def _in_folder(folder: str) -> dict[str, str]:
    """The classes of a folder of the package by the names of the command line."""
    modules = fleetmetrics._modules.items()
    return {snake_case(kind): kind for kind, module in modules if module.startswith(f"fleetmetrics.{folder}.")}


def separated(text: str) -> list[str]:
    """The metrics between commas, as strings."""
    return [metric.strip() for metric in re.split(_COMMA, text) if metric.strip()]


def named(texts: Sequence[str]) -> dict[str, Named]:
    """The requested metrics, by their keys in the result."""
    metrics: dict[str, Named] = {}
    with _errors_of(argument("metrics")):
        for text in texts:
            metric = _parsed(text)
            if metric.key in metrics:
                raise InvalidInputError(f"{metric.key!r} is taken; give it another name, NAME={text}")
            metrics[metric.key] = metric
    if not metrics:
        raise InvalidInputError(f"{argument('metrics')} is empty; give at least one name, or leave it out")
    return metrics


def _parsed(text: str) -> Named:
    match = _SPEC.fullmatch(text)
    if match is None:
        raise InvalidInputError(f"{text!r} must be like auc, ndcg@10, or pr=auc:curve=PR")
    settings = dict(part.split("=", 1) for part in match["settings"].split(":")[1:])
    k = None if match["k"] is None else int(match["k"])
    return Named(text, match["key"] or text, match["name"], k, settings)


@contextlib.contextmanager
def _errors_of(what: str) -> Iterator[None]:
    """Errors inside say what they are about."""
    try:
        yield
    except (InvalidInputError, TypeError) as error:
        raise InvalidInputError(f"{what}: {error}") from None


#: Settings of every metric that do not change its value.
_COMMON = ("name", "communicator", "size", "sampler", "by")


def described(name: str) -> list[str]:
    """Describe a metric in lines: its first line, formula, range, better direction, other names, and settings.

    Args:
        name: as `named` takes it, or its name in another library, such as PCOC.

    Raises:
        InvalidInputError: the metric does not exist.
    """
    kind = _kind_called(name)
    text = inspect.cleandoc(kind.__doc__ or "")
    paragraphs = [" ".join(part.split()) for part in text.partition("\nArgs:")[0].split("\n\n")]
    called = next(name for name, class_name in kinds().items() if class_name == kind.__name__)
    lines = [f"{called}: {_plain(paragraphs[0])}", ""]
    lines += [_plain(paragraph) for paragraph in paragraphs[1:] if paragraph.startswith(("Formula", "With", "By "))]
    entry = entries()[kind.__name__]
    lines += [f"Range: {entry.range}", f"Better: {entry.better(kind)}", f"Undefined: {entry.undefined}"]
    lines += [f"Source: {entry.source}", f"Elsewhere: {entry.names}"]
    lines += _lines_on_settings(kind.__signature__.parameters, _settings(text), called)
    return [*lines, "", f"help(fleetmetrics.{kind.__name__}) has more"]


def _lines_on_settings(
    parameters: Mapping[str, inspect.Parameter], described: Mapping[str, str], called: str
) -> list[str]:
    """The settings of a metric in lines, with defaults, those that its docstring describes first."""
    own = [parameter for name, parameter in parameters.items() if name in described]
    others = [name for name in parameters if name not in described and name not in _COMMON]
    lines = ["", f"Settings, {called}:name=value:name=value"] if own else []
    for parameter in own:
        default = "needed" if parameter.default is parameter.empty else repr(parameter.default)
        lines.append(f"  {parameter.name} ({default}): {_plain(described[parameter.name])}")
    return [*lines, "", f"And {', '.join(others)}"] if others else lines


def _kind_called(name: str) -> Any:
    """The class of a metric by its name here, or in another library."""
    try:
        return _parsed(name).kind()
    except InvalidInputError:
        classes = {other.lower(): ours for other, ours in owners().items() if ours in kinds().values()}
        if name.lower() not in classes:
            raise
        return getattr(fleetmetrics, classes[name.lower()])


def _plain(text: str) -> str:
    return text.replace("`", "")


def _settings(text: str) -> dict[str, str]:
    """The arguments that a docstring describes."""
    section = re.split(r"\n(?=[A-Z][a-z]+:\n)", text.partition("\nArgs:\n")[2])[0]
    entries_of_args = re.findall(r"(?m)^    (\w[\w, ]*): ((?:.+\n?(?:        .*\n?)*))", section)
    return {name.strip(): " ".join(what.split()) for names, what in entries_of_args for name in names.split(",")}


def listed() -> list[str]:
    """A line for each metric: its name, its definition, and its arguments beyond label and score."""
    lines, width = [], max(map(len, kinds()))
    for name, kind in sorted(kinds().items()):
        metric = getattr(fleetmetrics, kind)
        parameters = metric.__signature__.parameters.values()
        needs = [f":{parameter.name}=" for parameter in parameters if parameter.default is parameter.empty]
        if any(parameter.name == "by" for parameter in parameters):
            needs.append("--user")
        if name == "exact_match":
            needs.append(":num_labels=")
        what = metric.__doc__.partition("\n")[0].replace("`", "")
        lines.append(f"{name:{width}}  {what}{f' Needs {needs[0]}.' if needs else ''}")
    return lines
