"""``BaseMetric``: metrics that need the records of all samples together, after MMEval's."""

from __future__ import annotations

import logging
from typing import Any

from fleetmetrics.arguments import whole_number_of
from fleetmetrics.comm import Communicator, LocalCommunicator
from fleetmetrics.comm.backends import check_backend, get_dist_backend
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.records.batches import RECORDS, Columns
from fleetmetrics.records.gather import gather
from fleetmetrics.records.share import Recorder, Share, check_mode
from fleetmetrics.sampling import Dealing, epoch_under_way

__all__ = ["BaseMetric"]


class BaseMetric(Recorder):
    """A metric over records: ``add`` appends them, ``compute`` brings those of all workers together.

    Derive from it, and say in ``compute_metric`` what the value is:

        class SpearmanCorrelation(fleetmetrics.BaseMetric):
            def compute_metric(self, results):
                return {"spearman": spearmanr(results["score"], results["target"]).statistic}

        metric = SpearmanCorrelation(sampler=batch_sampler)
        for x, y in loader:
            metric.add(score=model(x), target=y)
        metric.compute()                               # the same dict on every worker

    ``add`` takes a batch as columns. A class written for MMEval runs as it is: it overrides ``add``, appends one
    record per sample to ``self._results``, and gets the list of all of them in ``compute_metric``.

    Where a sum will do, define ``summarize(results)``, which condenses records to a dict of arrays, and
    ``compute_from(states)``, which makes the value from their sums over all workers: then only these travel.

    Differs from MMEval where that gives a wrong number: workers with unequally many records lose none; ``size``
    means the same with one worker as with many, and one larger than what was gathered is an error; what
    ``compute_metric`` raises is raised on every worker; what was accumulated survives a failed `__call__`.

    Args:
        dataset_meta: what a metric must know of the data set, such as the names of its classes; copied.
        dist_collect_mode: how the workers' records go together. "unzip": one sample from each rank in turn, as
            PyTorch's sampler deals them; "cat": rank after rank; "batch": block by block, as
            `paddle.io.DistributedBatchSampler` deals them; "auto": as ``sampler`` says, else like "batch".
            None: "auto" with a sampler, else "unzip", which is MMEval's default.
        dist_backend: name of the communicator, see `list_all_backends`; None: the default one.
        logger: for messages; None: that of fleetmetrics.
        sampler: the `paddle.io.DistributedBatchSampler` that deals the samples, or a `paddle.io.DataLoader` with one:
            settles padding and order exactly, shuffled or not. See `fleetmetrics.padding_mask`.
        batch_size: length of the blocks for "batch"; None: each ``add`` of columns is a block.
        allow_pickle: whether records that have no array form may be pickled on their way to another worker. They
            are read by the workers of this job only; False makes such a record a `RecordError`.
        collect_dir: a directory through which the records go to rank 0 instead of through memory; it is made if need
            be, and nothing that was in it is touched.
        collect_dir_shared: False if the workers do not see the same ``collect_dir``.

    Raises:
        UnknownNameError: for an unknown collect mode or backend.
        InvalidInputError: for another argument that is not what it should be.

    Examples:
        >>> class Clicks(BaseMetric):
        ...     def compute_metric(self, results):
        ...         return {"share": float((results["score"] > 0.5).mean())}
        >>> metric = Clicks()
        >>> metric.add(score=[0.25, 0.75], ids=[7, 8])
        >>> metric.add(score=[0.75], ids=[8])         # the same sample again, as samplers pad
        >>> metric.compute()
        {'share': 0.5}
    """

    _computed_by = "compute_metric"

    def __init__(
        self,
        dataset_meta: dict[str, Any] | None = None,
        dist_collect_mode: str | None = None,
        dist_backend: str | None = None,
        logger: logging.Logger | None = None,
        *,
        sampler: Any = None,
        batch_size: int | None = None,
        allow_pickle: bool = True,
        collect_dir: str | None = None,
        collect_dir_shared: bool = True,
    ) -> None:
        super().__init__(collect_dir, collect_dir_shared, allow_pickle)
        self.dataset_meta = dataset_meta
        mode = ("unzip" if sampler is None else "auto") if dist_collect_mode is None else dist_collect_mode
        self.dist_collect_mode = check_mode("dist_collect_mode", mode)
        self._guessed = sampler is None and dist_collect_mode is None
        if sampler is not None and mode != "auto":
            raise InvalidInputError(f"dist_collect_mode is {mode!r}; a sampler goes with 'auto', which is its default")
        self._backend = check_backend(dist_backend)
        self._communicator: Communicator | None = None
        self.logger = logger or logging.getLogger("fleetmetrics")
        self.sampler = sampler
        self.batch_size = batch_size
        self._records: list[Any] = []
        self._columns = Columns()
        self._epoch: int | None = None  # of the sampler's pass, from the first record on
        if sampler is not None:
            Dealing(sampler, 0)  # a sampler of another kind is an error now

    @property
    def dataset_meta(self) -> dict[str, Any] | None:
        """What the metric knows of the data set: a copy, on the way in and out."""
        return None if self._dataset_meta is None else self._dataset_meta.copy()

    @dataset_meta.setter
    def dataset_meta(self, dataset_meta: dict[str, Any] | None) -> None:
        self._dataset_meta = None if dataset_meta is None else dataset_meta.copy()

    @property
    def name(self) -> str:
        """The name of the class."""
        return type(self).__name__

    @property
    def dist_comm(self) -> Communicator:
        """The workers' communicator."""
        return self._communicator or get_dist_backend(self._backend)

    @dist_comm.setter
    def dist_comm(self, communicator: Communicator) -> None:
        self._communicator = communicator

    @property
    def _results(self) -> list[Any]:
        """One record per sample, for an ``add`` that appends them itself."""
        if self._epoch is None and self.sampler is not None:
            self._epoch = epoch_under_way(self.sampler)
        return self._records

    @_results.setter
    def _results(self, records: list[Any]) -> None:
        self._records = records

    def add(self, *columns: Any, ids: Any = None, **named: Any) -> None:
        """Append a batch, one record per sample; or override it, and append records to ``self._results``.

        Args:
            *columns: arrays or tensors whose first axis is the sample, or lists of whatever a sample leaves behind:
                texts, ragged arrays, dicts, ... Arrays are kept, not copied: do not write into them afterwards.
            ids: one integer or text per sample. A sample that comes twice counts once, and two records of one
                id that differ by more than rounding are an error. The records then come in the order of the ids.
            **named: the columns by name, instead; any name but ``ids``.

        Raises:
            InvalidInputError: if the columns are not equally long, or not those of the batches before; then nothing
                of the batch was added.
        """
        if self._epoch is None and self.sampler is not None:
            self._epoch = epoch_under_way(self.sampler)
        self._columns.append(columns, named, ids)

    def compute_metric(self, results: Any) -> Any:
        """The value, from the records of all samples; runs on one worker.

        Args:
            results: a dict of columns if they were added by name, a tuple of them if without; the list of records
                if ``add`` appends them itself; an empty list if there are none.

        Returns:
            Usually a dict of numbers.
        """
        return self._summarized(results)

    def compute(self, size: int | None = None, *, timeout: float | None = None) -> Any:
        """The value over the samples of all workers: the same on every worker.

        Every worker must call it; nothing that was accumulated changes.

        Args:
            size: how many samples the whole data set has. What was gathered beyond it, in the order of the collect
                mode, is padding and dropped. None: all is kept, but for what the sampler or the ids tell.
            timeout: seconds to wait for the others; None: ``FLEETMETRICS_TIMEOUT``, else 1,800.

        Returns:
            What ``compute_metric`` returned.

        Raises:
            InvalidInputError: if records are not one to one with samples, or the records of an id differ.
            RecordError: if a record can not cross to another worker.
            FleetMetricsError: the same error on every worker, by the deadline.
            Exception: what ``compute_metric`` raised, on every worker.
        """
        return gather(self.name, lambda: [self._share(size)], self.dist_comm, timeout)[0]

    def compute_local(self) -> Any:
        """The value over what was added on this worker, padding included; no communication."""
        return gather(self.name, lambda: [self._share(whole=False)], LocalCommunicator())[0]

    def _share(self, size: int | None = None, whole: bool = True) -> Share:
        """What this metric brings to an exchange; ``whole`` is False for samples that no sampler dealt."""
        if self._records and self._columns.batches:
            raise InvalidInputError(
                f"{self.name}: some records were appended to _results and others added as columns; use one way only"
            )
        columns = self._columns if self._columns.batches else Columns.of(list(self._records))
        if not whole:
            return Share(self, self.name, columns, size, "cat")
        if self.sampler is not None:
            epoch = epoch_under_way(self.sampler) if self._epoch is None else self._epoch
            return Share(self, self.name, columns, size, "batch", Dealing(self.sampler, epoch))
        if self.dist_collect_mode in ("auto", "batch"):
            return Share(self, self.name, columns, size, "batch", blocks=self._blocks(columns))
        return Share(self, self.name, columns, size, None if self._guessed else self.dist_collect_mode)

    def _blocks(self, columns: Columns) -> list[int]:
        """The lengths of the blocks in which this worker's records came."""
        if self.batch_size is None:
            if columns.names == RECORDS:
                raise InvalidInputError(
                    f"{self.name}: collect mode 'batch' must know the blocks in which the records came; give"
                    " batch_size=, or add columns"
                )
            return columns.blocks()
        size = whole_number_of("batch_size", self.batch_size, 1)
        whole, rest = divmod(len(columns), size)
        return [size] * whole + [rest] * (rest > 0)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The value of one batch on this worker, without touching what was accumulated.

        Args:
            *args: for ``add``.
            **kwargs: for ``add``.
        """
        kept = self._records, self._columns, self._epoch
        self._records, self._columns = [], Columns()
        try:
            self.add(*args, **kwargs)
            return self.compute_local()
        finally:
            self._records, self._columns, self._epoch = kept

    def reset(self) -> None:
        """Forget what was accumulated on this worker."""
        self._records.clear()
        self._columns.clear()
        self._epoch = None
