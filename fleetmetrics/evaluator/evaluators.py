"""``Evaluators``: several validation sets, evaluated in one exchange."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.evaluator.evaluator import Evaluator, evaluate_together

__all__ = ["Evaluators"]


class Evaluators:
    """Several validation sets: an `Evaluator` for each, and one exchange for all.

    Args:
        evaluators: by the name of the set, which is put before the names of its values.

    Raises:
        InvalidInputError: if one of them is no `Evaluator`.

    Examples:
        >>> from fleetmetrics.evaluator import Evaluator
        >>> sets = Evaluators({"clean": Evaluator(dict(type="Accuracy")), "noisy": Evaluator(dict(type="Accuracy"))})
        >>> sets["clean"].process([dict(pred_label=1, gt_label=1)])
        >>> sets["noisy"].process([dict(pred_label=0, gt_label=1)])
        >>> sets.evaluate()
        {'clean/accuracy/top1': 100.0, 'noisy/accuracy/top1': 0.0}
    """

    def __init__(self, evaluators: Mapping[str, Evaluator]) -> None:
        for name, evaluator in evaluators.items():
            if not isinstance(evaluator, Evaluator):
                raise InvalidInputError(f"evaluators[{name!r}] must be an Evaluator, not {type(evaluator).__name__}")
        self._evaluators = dict(evaluators)

    def __getitem__(self, name: str) -> Evaluator:
        return self._evaluators[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._evaluators)

    def __len__(self) -> int:
        return len(self._evaluators)

    def evaluate(
        self, sizes: Mapping[str, int | None] | None = None, *, timeout: float | None = None
    ) -> dict[str, Any]:
        """Compute all metrics of all sets; the results are forgotten then, unless one raises.

        Args:
            sizes: how many samples each set has, by name; None, or a set that is left out: nothing is cut.
            timeout: as in `Evaluator.evaluate`.

        Returns:
            Values by name, such as "clean/accuracy/top1"; the same on every worker.

        Raises:
            InvalidInputError: if ``sizes`` names a set that is not there; else as `Evaluator.evaluate`.
        """
        return evaluate_together(self._evaluators, sizes or {}, timeout)
