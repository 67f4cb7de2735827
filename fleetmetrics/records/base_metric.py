"""``BaseMetric``: metrics that need the records of all samples together, modeled on MMEval's."""

from __future__ import annotations

import logging
from itertools import chain
from typing import Any

from fleetmetrics.comm import Communicator, LocalCommunicator
from fleetmetrics.comm.backends import backend_of, check_backend
from fleetmetrics.comm.choose import checked_communicator, resolve
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.records.batches import RECORDS, Columns
from fleetmetrics.records.gather import gather
from fleetmetrics.records.ledger import Ledger, samples_added
from fleetmetrics.records.recorder import Recorder
from fleetmetrics.records.resumable import PassOfRecords, Resumable, plain_settings
from fleetmetrics.records.share import Share, check_mode
from fleetmetrics.support.checks import whole_number_of
from fleetmetrics.support.launcher import notice
from fleetmetrics.xp import together_to_host

__all__ = ["BaseMetric"]


class BaseMetric(Recorder, Resumable):
    """A metric over records: ``add`` appends them, ``compute`` gathers those of all workers.

    Derive from it, and compute the value in ``compute_metric``. ``add`` takes a batch as columns. A class written for
    MMEval works unchanged: it overrides ``add``, appends one record per sample to ``self._results``, and gets the list
    of all of them in ``compute_metric``.

    If sums suffice, define ``summarize(results)``, which reduces records to a dict of arrays, and
    ``compute_from(states)``, which computes the value from their sums: workers then exchange only the sums.

    It differs from MMEval where MMEval gives a wrong number. Workers with different numbers of records lose no record;
    ``size`` means the same with one worker as with many, and a size above the number of gathered records is an error;
    an error in ``compute_metric`` is raised on every worker; accumulated records survive a failed `__call__`.

    Args:
        dataset_meta: facts about the data set, such as the names of its classes; copied.
        dist_collect_mode: the order of the workers' records. "unzip": one sample from each rank in turn, as
            PyTorch's sampler assigns them; "cat": rank after rank; "batch": block by block, as
            `paddle.io.DistributedBatchSampler` assigns them; "auto": decided by ``sampler``, else like "batch".
            None: "auto" with a sampler, else "unzip", MMEval's default.
        dist_backend: name of the communicator, see `list_all_backends`; None: the default one.
        logger: for messages; None: fleetmetrics' own.
        sampler: the `paddle.io.DistributedBatchSampler` that assigns the samples, or a `paddle.io.DataLoader` with one:
            padding and order are then exact, shuffled or not. See `fleetmetrics.padding_mask`.
        batch_size: length of the blocks for "batch"; None: each ``add`` of columns is a block.
        allow_pickle: whether records that have no array form may be pickled on their way to another worker, if the
            workers have authenticated each other; otherwise they raise `RecordError`.
        collect_dir: a directory, created if missing, through which records go to rank 0 instead of through memory;
            its other files are left alone.
        collect_dir_shared: False if the workers do not see the same ``collect_dir``.

    Raises:
        UnknownNameError: for an unknown collect mode or backend.
        InvalidInputError: for any other invalid argument.

    Examples:
        >>> class Clicks(BaseMetric):
        ...     def compute_metric(self, results):
        ...         return {"share": float((results["score"] > 0.5).mean())}
        >>> metric = Clicks()
        >>> metric.add(score=[0.25, 0.75], ids=[7, 8])
        >>> metric.add(score=[0.75], ids=[8])         # the same sample again, as padding
        >>> metric.compute()
        {'share': 0.5}
    """

    dist_collect_mode: str

    _fed_by, _computed_by = ("add", samples_added), "compute_metric"

    def __init__(
        self,
        dataset_meta: dict[str, Any] | None = None,
        dist_collect_mode: str | None = None,
        dist_backend: str | None = None,
        logger: logging.Logger | None = None,
        *,
        sampler: Any = None,
        batch_size: int | None = None,
        allow_pickle: bool = False,
        collect_dir: str | None = None,
        collect_dir_shared: bool = True,
    ) -> None:
        notice()
        super().__init__(collect_dir, collect_dir_shared, allow_pickle)
        self.dataset_meta = dataset_meta
        mode = dist_collect_mode
        if mode is None:
            mode = "unzip" if sampler is None else "auto"
        self.dist_collect_mode = check_mode("dist_collect_mode", mode)
        self.settle(dist_collect_mode=mode)
        self._guessed = sampler is None and dist_collect_mode is None
        if sampler is not None and mode != "auto":
            raise InvalidInputError(f"dist_collect_mode is {mode!r}; with a sampler it must be 'auto', the default")
        self._backend = check_backend(dist_backend)
        self._communicator: Communicator | None = None
        if logger is not None and not callable(getattr(logger, "warning", None)):
            raise InvalidInputError(f"logger must be a logging.Logger or None, not {logger!r:.80}")
        self.logger: logging.Logger = logger or logging.getLogger("fleetmetrics")
        self._pass = PassOfRecords(sampler)
        self.batch_size = batch_size
        self._records: list[Any] = []
        self._columns = Columns()

    @property
    def dataset_meta(self) -> dict[str, Any] | None:
        """Facts about the data set; copied when set and when read."""
        return None if self._dataset_meta is None else self._dataset_meta.copy()

    @dataset_meta.setter
    def dataset_meta(self, dataset_meta: dict[str, Any] | None) -> None:
        if dataset_meta is not None and not isinstance(dataset_meta, dict):
            raise InvalidInputError(f"dataset_meta must be a dict or None, not {dataset_meta!r:.80}")
        self._dataset_meta = None if dataset_meta is None else dataset_meta.copy()

    @property
    def name(self) -> str:
        """The name of the class."""
        return type(self).__name__

    @property
    def dist_comm(self) -> Communicator:
        """The workers' communicator."""
        return resolve(self._communicator, backend=backend_of(self._backend))

    @dist_comm.setter
    def dist_comm(self, communicator: Communicator) -> None:
        self._communicator = checked_communicator(communicator)

    @property
    def _results(self) -> list[Any]:
        """One record per sample, for an ``add`` that appends records itself."""
        self._begin_pass()
        return self._records

    @_results.setter
    def _results(self, records: list[Any]) -> None:
        self._records = records

    def _appended(self) -> list[Any]:
        return self._records

    def _value_of(self, results: Any) -> Any:
        return self.compute_metric(results)

    def add(self, *columns: Any, **named: Any) -> None:  # checkers let a subclass take what it likes instead
        """Append a batch, one record per sample; or override it, and append records to ``self._results``.

        Args:
            *columns: arrays or tensors whose first axis is the sample, or lists of anything: strings, ragged arrays,
                dicts, ... Arrays are kept, not copied: do not write into them afterwards.
            **named: the columns by name, instead. ``ids`` has one integer or string per sample: a repeated sample
                counts once, its records must not differ by more than rounding, and the records are then in the order
                of the ids.

        Raises:
            InvalidInputError: if the columns differ in length, or from those of earlier batches; the batch was not
                added.
        """
        ids = named.pop("ids", None)
        self._begin_pass()
        self._columns.append(columns, named, ids)

    def compute_metric(self, results: Any) -> Any:
        """The value, usually a dict of numbers, from the records of all samples; runs on one worker.

        Args:
            results: a dict of columns if they were added by name, a tuple if not; a list of records if ``add`` appends
                them itself; an empty list without samples.
        """
        return self._summarized(results)

    def compute(self, size: int | None = None, *, group: Any = None, timeout: float | None = None) -> Any:
        """The value over the samples of all workers, the same on every worker.

        Every worker must call it; the accumulated records stay.

        Args:
            size: the number of samples in the whole data set. Further ones, in the order of the collect mode, are
                dropped as padding. None: only samples that the sampler or the ids identify as repeated are dropped.
            group: the workers to compute over; only these call it, see `fleetmetrics.Communicator.among`. None: all.
            timeout: seconds to wait for the others; None: ``FLEETMETRICS_TIMEOUT``, else 1,800, or
                300 until all have met.

        Returns:
            The result of ``compute_metric``.

        Raises:
            InvalidInputError: if records are not one to one with samples, or the records of an id differ.
            RecordError: if a record cannot be sent to another worker.
            FleetMetricsError: the same error on every worker, by the deadline.
            Exception: the error of ``compute_metric``, on every worker.
        """
        return gather(self.name, lambda: self._shares(size), self.dist_comm.among(group), timeout)[-1]

    def compute_local(self) -> Any:
        """The value over this worker's records, padding included, without communication."""
        return gather(self.name, lambda: self._shares(whole=False), LocalCommunicator())[-1]

    def _shares(self, size: int | None = None, whole: bool = True) -> list[Share]:
        """The parts of an exchange, whose values rank 0 computes one after the other; the last is this metric's."""
        return [self._share(size, whole)]

    def _share(self, size: int | None = None, whole: bool = True) -> Share:
        """This metric's part of an exchange; ``whole`` is False for this worker alone."""
        if self._records and self._columns.batches:
            raise InvalidInputError(
                f"{self.name}: some records were appended to _results and others added as columns; use one way only"
            )
        (columns,) = self._given()
        if self._before is not None:
            return self._goes_on(Share(self, self.name, columns, size, None), whole=whole)
        if not whole:
            return Share(self, self.name, columns, size, "cat")
        if self.sampler is not None:
            return Share(self, self.name, columns, size, "batch", self._pass.dealing)
        if self.dist_collect_mode in ("auto", "batch"):
            blocks = self._blocks(columns)
            owner = self.name, "compute(size={})"
            return Share(self, self.name, columns, size, "batch", blocks=blocks, block=self.batch_size, owner=owner)
        mode = None if self._guessed else self.dist_collect_mode
        return Share(self, self.name, columns, size, mode, owner=(self.name, "compute(size={})"))

    def settings(self) -> dict[str, Any]:
        """The settings that a checkpoint compares: public plain values."""
        return plain_settings(self)

    def _recorders(self) -> list[Any]:
        return [self]

    def _given(self) -> list[Columns]:
        self._columns.batches = together_to_host(self._columns.batches)
        return [self._columns if self._columns.batches else Columns.of(list(self._records))]

    def _give(self, columns: list[Columns]) -> None:
        as_records = columns[0].names == RECORDS
        self._records = list(chain(*[batch[0] for batch in columns[0].batches])) if as_records else []
        self._columns = Columns() if as_records else columns[0]

    def _blocks(self, columns: Columns) -> list[int]:
        """The lengths of the blocks of this worker's records."""
        if self.batch_size is None:
            if columns.names == RECORDS:
                raise InvalidInputError(
                    f"{self.name}: collect mode 'batch' needs the blocks in which the records came; give batch_size=, "
                    "or add columns"
                )
            return columns.blocks()
        size = whole_number_of("batch_size", self.batch_size, 1)
        whole, rest = divmod(len(columns), size)
        blocks = [size] * whole
        if rest:
            blocks.append(rest)
        return blocks

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the value of one batch, given as to ``add``, on this worker; the accumulated records stay."""
        kept = self._records, self._columns, self._ledger, self._before
        mark = self._pass.mark()
        self._records, self._columns, self._ledger, self._before = [], Columns(), Ledger(), None
        try:
            self.add(*args, **kwargs)
            return self.compute_local()
        finally:
            self._records, self._columns, self._ledger, self._before = kept
            self._pass.back_to(mark)

    def reset(self) -> None:
        """Forget the records of this worker."""
        self._records.clear()
        self._columns = Columns()
        self._ledger.cut(0)
        self._before = None
        self._pass.reset()
