"""fleetmetrics: global metrics for Paddle's distributed jobs.

N workers print the number that one process would print over the whole data set, the same on every rank, or
they all raise the same clear error before the deadline.

Examples:
        >>> import fleetmetrics
        >>> auc = fleetmetrics.AUC()
        >>> auc.add(prediction=[0.1, 0.4, 0.35, 0.8], label=[0, 0, 1, 1])
        >>> auc.compute()                           # over all workers, wherever it runs
        0.75

The folders, each of which imports only those above it:

    words         texts of reports and facts about metrics, in two languages
    support       what everything stands on: checks of arguments, settings, warnings, logs, foreign tensors
    numbers       merges that give the same bits in any order: sums, extremes, moments
    xp            one namespace for arrays of NumPy and tensors of Paddle
    formulas      from global statistics to values, in plain NumPy
    serial        arrays as bytes, and what travels between workers
    comm          the workers' channel: who is in the job, and one exchange among them
    samplers      which samples count, and which are padding
    static        variables inside a static program
    state         a named, typed array with a reduction
    batch         what one call of add brings: flat, checked, weighted
    records       one entry for each sample, where a metric cannot be summed
    columns       columns of files, frames and tables, as arguments of add
    saving        contents as checkpoints, and copies of one data set
    plot          curves and charts
    base          what accumulates, exchanges once and evaluates
    metrics       the catalogue
    vision        metrics of pictures: features, boxes and regions, as records of any form
    wrappers      slices, windows and intervals around any metric
    files         metrics of files of any size
    engines       metrics on Spark, Ray and Dask
    evaluator     evaluation with MMEngine's interface
    report        a result as a page
    evaluation    from data to a conclusion
    integrations  the loops and tools of others: Paddle's fleet.metrics and Model, trainers, loggers
    cli           the command line

Each name is imported at its first use. Only ``fleetmetrics.static`` imports Paddle; without Paddle
``hasattr(fleetmetrics, "static")`` is False, and ``import fleetmetrics.static`` says what to install.
"""

from __future__ import annotations

import importlib
from typing import Any, Mapping

from fleetmetrics import _names

_modules = _names.MODULES
__all__ = sorted({*_modules}.difference(_names.NOT_STARRED))


def __getattr__(name: str) -> Any:
    value = globals()[name] = _first_use(__name__, name, _modules)
    return value


def _first_use(package: str, name: str, modules: Mapping[str, str]) -> Any:
    """The value of a public name of a package, which is in one of the ``modules``, or a module of the package."""
    if name in modules:
        return getattr(importlib.import_module(modules[name]), name)
    if name.startswith("_"):
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    try:
        return importlib.import_module(f"{package}.{name}")
    except ImportError as error:
        if error.name != f"{package}.{name}":  # `hasattr` takes only an AttributeError for a no
            raise AttributeError(f"module {package!r} has no attribute {name!r} here: {error}") from error
        from fleetmetrics.support.hints import hint_of_name

        hint = hint_of_name(name, {public: public for public in modules})
        raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}") from None


def __dir__() -> list[str]:
    """The public names, and no module of Python's that this one imports."""
    return sorted({*(name for name in globals() if name.startswith("__")), *_modules, *_names.ROOMS})
