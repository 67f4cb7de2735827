"""Hints for names that are misspelt, or those of other libraries: of arguments, methods, metrics, options, columns."""

from __future__ import annotations

import contextlib
import re
from typing import Iterable, Mapping, Sequence

__all__ = ["arguments_meant", "did_you_mean", "hint_of_argument", "hint_of_method", "hint_of_name", "near"]

#: Names that other libraries, and other metrics of ours, give to the arguments of ``add`` and to settings.
_ARGUMENTS = {
    "prediction": "forecast input inputs logits output outputs pred predicted prediction predictions preds prob probs "
    "probability probabilities score scores y_hat y_pred y_prob y_proba y_score",
    "label": "actual ground_truth gt labels target targets truth y y_true",
    "weight": "sample_weight sample_weights weights w",
    "mask": "masks padding_mask valid",
    "value": "input inputs prediction preds val values x",
    "k": "topk top_k ks at",
    "topk": "k top_k ks",
    "top_k": "k topk ks",
    "threshold": "thr thrs thresh thresholds",
    "thr": "threshold thrs thresh",
    "thrs": "threshold thr thresholds",
    "num_classes": "n_classes nb_classes classes class_num num_class",
    "num_labels": "n_labels nb_labels",
    "average": "averaging avg reduction reduce average_mode",
    "from_logits": "logit logits",
    "replicates": "bootstraps draws n_bootstraps num_bootstraps resamples",
    "join_on": "id ids join_by on",
    "score": "pred preds prediction predictions prob probability y_pred y_prob y_score",
    "ignore_index": "ignore_label ignored_index ignore",
    "column": "group group_id groups indexes qid queries query query_id uid user user_id users",
}

#: Names that other libraries give to the methods.
_METHODS = {
    "add": "append collect feed forward process update update_state",
    "compute": "accumulate eval evaluate get result value",
    "merge": "merge_state",
    "set_state_dict": "load_state_dict",
    "reset": "clear reset_state reset_states",
    "fresh": "clone",
}

#: The number of names that a hint may have.
_MOST_MEANT = 3

_TASKS = ("binary", "multiclass", "multilabel")


def hint_of_argument(name: str, allowed: Sequence[str]) -> str:
    """``"; did you mean prediction?"``, or a full stop."""
    return did_you_mean(arguments_meant(name, allowed)) or "."


def arguments_meant(name: str, allowed: Sequence[str]) -> list[str]:
    """The allowed argument that may be meant by another name, or nothing."""
    for argument, names in _ARGUMENTS.items():
        if name.lower() in names.split():
            columns = [other for other in allowed if other not in _ARGUMENTS and argument == "column"]
            for meant in [argument, *(columns if len(columns) == 1 else ())]:
                if meant in allowed:
                    return [meant]
    return near(name, allowed)


def hint_of_method(name: str) -> str:
    """``"; did you mean compute?"``, or nothing.

    Args:
        name: an unknown attribute.
    """
    return did_you_mean([ours for ours, theirs in _METHODS.items() if name in theirs.split()])


def hint_of_name(name: str, known: Mapping[str, str]) -> str:
    """``"; did you mean AUC?"``, or nothing.

    Args:
        name: the unknown name.
        known: the candidates, each with its public name.
    """
    if name.startswith("_"):
        return ""
    from fleetmetrics.errors import FileAccessError
    from fleetmetrics.words.catalogue import owners

    own_name_of = {public: own_name for own_name, public in known.items()}
    names = {_plain(known_name): known_name for known_name in known}
    with contextlib.suppress(FileAccessError):  # a zip of Python files alone
        names.update((_plain(other), own_name_of[ours]) for other, ours in owners().items() if ours in own_name_of)
    names.update((_plain(own), own) for own, public in known.items() if public[0].isupper())  # rather than a function
    plain = _plain(name)
    task = next((prefix for prefix in _TASKS if plain.startswith(prefix)), "")
    for tried in (plain, plain[len(task) :]):
        for end in ("", "score", "metric", "index"):
            if tried.endswith(end) and tried[: len(tried) - len(end)] in names:
                ours = names[tried[: len(tried) - len(end)]]
                return did_you_mean([f"{ours}(task={task!r})" if task not in ("", "binary") else ours])
    return did_you_mean([names[match] for match in near(plain, names, 0.66)])


def near(name: str, known: Iterable[str], likeness: float = 0.6) -> list[str]:
    """The known names that an unknown one may mean: up to three that begin with it, or the one that is most like it.

    Examples:
        >>> near("--skip", ["--skip-rows", "--skip-files"]), near("Slto", ["slot", "user"]), near("day", ["slot"])
        (['--skip-rows', '--skip-files'], ['slot'], [])
    """
    import difflib  # every metric imports this module, and few make mistakes

    names, name = {known_name.lower(): known_name for known_name in known}, name.lower()
    longer = [names[known_name] for known_name in names if known_name.startswith(name)]
    if 0 < len(longer) <= _MOST_MEANT:
        return longer
    return [names[match] for match in difflib.get_close_matches(name, names, 1, likeness)]


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name.lower())


def did_you_mean(matches: Iterable[str]) -> str:
    """``"; did you mean slot or user?"``, or nothing."""
    meant = " or ".join(dict.fromkeys(matches))
    return f"; did you mean {meant}?" if meant else ""
