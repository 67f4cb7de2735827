"""What could be wrong with the package, one fault at a time, and the tests that must see it."""

from __future__ import annotations

from typing import NamedTuple


class Mutation(NamedTuple):
    """A fault.

    Args:
        fault: in words.
        text: what stands in the package, exactly once.
        replacement: what would stand there.
        tests: arguments of pytest: the tests that must fail, quick ones.
        file: where the text stands, if it stands in other files too; the end of a path.
    """

    fault: str
    text: str
    replacement: str
    tests: str
    file: str = ""


CHANNEL = "tests/distributed/test_channel.py"

MUTATIONS = [
    # -- checkpoints ------------------------------------------------------------------------------------------
    Mutation(
        "the parts of a checkpoint are merged one after the other, each with a rounding",
        'return held_of(*combine_exactly(self.reduction, *both, "what is merged")) if parts else {}',
        "two = functools.partial(combine_exactly, self.reduction, rests=[None, None]); "
        'return {"": functools.reduce(lambda a, b: two([a, b])[0], both[0])} if parts else {}',
        "tests/test_resume.py -k last_bit",
    ),
    Mutation(
        "what rounding takes of merged sums is lost",
        'both = [part[""] for part in parts], [part.get(REST) for part in parts]',
        'both = [part[""] for part in parts], [None for part in parts]',
        "tests/test_partial.py -k same_bits",
    ),
    Mutation(
        "a user in two closed parts is not found",
        "twice = np.unique(members[1:][members[1:] == members[:-1]])",
        "twice = members[:0]",
        "tests/test_closing.py -k two_parts",
    ),
    Mutation(
        "a positive sample of a higher range has no pairs with the negative ones of a lower one",
        'pairs = 2 * n * made["positive"] if self._is_whole else 0',
        "pairs = 0",
        "tests/test_closing.py -k ranges_of_scores",
    ),
    Mutation(
        "open and closed parts merge",
        "if closed and len(closed) < len(filled):\n            raise",
        "if False:\n            raise",
        "tests/test_closing.py -k never_fed",
    ),
    Mutation(
        "a closed metric takes samples",
        'raise InvalidInputError(f"{self.name} is closed, and takes no more samples; reset it, or add to a new one")',
        "pass",
        "tests/test_closing.py -k takes_no_samples",
    ),
    Mutation(
        "an overlap of ranges of scores goes unseen",
        "if two[0] <= one[1]:",
        "if two[0] < one[0]:",
        "tests/test_closing.py -k overlap",
    ),
    Mutation(
        "a row of an evicted slice keeps what the words held",
        "self.rest[:, rows[rows < self.rest.shape[1]]] = 0",
        "pass",
        "tests/test_partial.py -k evicted",
    ),
    Mutation(
        "what was done of a pass counts padding",
        "return np.sort(np.concatenate(rest)[~np.concatenate(masks)])",
        "return np.sort(np.concatenate(rest))",
        "tests/test_resume.py -k remaining_indices_are",
    ),
    Mutation(
        "a state dict shares memory with the metric",
        "return held_of(np.array(self._whole(scope)), self.rest) if filled else {}",
        "return held_of(self._whole(scope), self.rest) if filled else {}",
        "tests/test_checkpoint.py -k is_a_copy",
    ),
    Mutation(
        "a file's arrays are not looked at",
        "if hashlib.sha256(data).hexdigest() != digest:",
        "if False:",
        "tests/serial/test_container.py -k flipped_bit",
        "serial/container.py",
    ),
    # -- the numbers of several workers -----------------------------------------------------------------------
    Mutation(
        "two workers' floats are added in float32",
        "return np.asarray(arrays[0] + arrays[1])",
        "return np.asarray((arrays[0].astype(np.float32) + arrays[1]).astype(np.float32).astype(np.float64))",
        "tests/test_numbers.py -k rounded_exact_sum",
    ),
    Mutation(
        "three workers' floats are added one after the other, without looking at the rounding",
        "for index in np.flatnonzero(~certain):",
        "for index in np.flatnonzero(~certain & False):",
        "tests/test_numbers.py -k rounded_exact_sum",
    ),
    Mutation(
        "nan of one worker is dropped from a maximum",
        '    function = np.maximum if reduction == "max" else np.minimum\n    result = arrays[0].copy()',
        '    function = np.fmax if reduction == "max" else np.fmin\n    result = arrays[0].copy()',
        "tests/test_numbers.py -k 'special_values or maxima or leaves_no_trace'",
    ),
    Mutation(
        "0.0 and -0.0 are taken for equal in an extreme",
        "np.copyto(result, np.where(negative, -0.0, 0.0), where=zero)",
        "pass",
        "tests/test_numbers.py -k 'special_values or maxima or leaves_no_trace'",
    ),
    Mutation(
        "a sum of several workers' integers wraps around",
        "        if _INT64.min <= min(totals) and max(totals) <= _INT64.max:\n            return",
        "        if totals := [(total + 2**63) % 2**64 - 2**63 for total in totals]:\n            return",
        "tests/test_numbers.py -k 'overflow or limit'",
    ),
    Mutation(
        "the identity of a maximum of floats is 0",
        '"max": -np.inf, "min": np.inf',
        '"max": 0.0, "min": np.inf',
        "tests/test_numbers.py -k identity",
    ),
    Mutation(
        "the identity of a minimum of integers is 0",
        '"max": _INT64.min, "min": _INT64.max',
        '"max": _INT64.min, "min": 0',
        "tests/test_numbers.py -k identity",
    ),
    Mutation(
        "one worker's states are forgotten",
        "found = [_groups(agreed, payload) for payload in payloads]",
        "found = [_groups(agreed, payload) for payload in payloads[:-1]]",
        "tests/comm/test_consult.py tests/comm/test_blocks.py",
    ),
    Mutation(
        "the workers' headers are not compared",
        "    if len({(layout.call, layout.names, layout.reductions, layout.shapes) for layout in layouts}) > 1:",
        "    if False:",
        f"{CHANNEL} -k 'error_is_the_same and 2'",
    ),
    Mutation(
        "the ranks are swapped on rank 0",
        "return [meeting.frames[rank] for rank in range(world)]",
        "return [meeting.frames[rank] for rank in reversed(range(world))]",
        "tests/comm/test_hub.py -k order_of_ranks",
    ),
    Mutation(
        "an integer beside a float of another worker loses its type",
        "dtypes = [str(np.result_type(*column)) for column in zip(*[layout.dtypes for layout in layouts])]",
        "dtypes = list(first.dtypes)",
        f"{CHANNEL} -k 'what_one_process_would and 2'",
    ),
    Mutation(
        "fleet.util: the rest of a long answer is forgotten",
        "        if length > piece:\n            told += ",
        "        if False:\n            told += ",
        "tests/comm/test_util.py -k to_the_byte",
    ),
    Mutation(
        "fleet.util: a util that gives back fewer numbers is believed",
        "if len(answer) != len(numbers) + 1:",
        "if False:",
        "tests/comm/test_util.py -k fails_shortens",
    ),
    Mutation(
        "moments of two groups are merged as if their means were equal",
        "return [total, x, xx + other[2] + dx * dx * lever, r]",
        "return [total, x, xx + other[2], r]",
        "tests/metrics/test_distribution.py",
    ),
    # -- who answers, and when ----------------------------------------------------------------------------------
    Mutation(
        "the environment speaks of two workers, and the value is that of one",
        "        if job.world_size > 1:\n            _automatic = ",
        "        if job.world_size > 2:\n            _automatic = ",
        f"{CHANNEL} -k 'what_one_process_would and 2'",
    ),
    Mutation(
        "the communicator that was set is ignored",
        "return _chosen if _chosen is not None else automatic_communicator()",
        "return automatic_communicator()",
        "tests/comm/test_choose.py -k set_communicator",
    ),
    Mutation(
        "compute gives the local value",
        "        self._raise_if_invalid(values)\n        carries",
        "        values = {state: state.read(scope) for state in states}\n        carries",
        "tests/test_metric.py -k over_all_workers",
    ),
    Mutation(
        "a worker that cannot read its states does not tell the others",
        "            blocks, trouble = [], error",
        "            raise",
        "tests/test_metric.py -k cannot_read",
    ),
    Mutation(
        "an error of one worker is not raised on the others",
        "if one.kind == TROUBLE else None",
        "if False else None",
        "tests/comm/test_hub.py -k trouble",
    ),
    Mutation(
        "rank 0 never looks at its deadline",
        "if time.monotonic() >= meeting.end:\n                raise DeadlineError(self._missing(",
        "if False:\n                raise DeadlineError(self._missing(",
        "tests/comm/test_hub.py -k named_in_time --timeout 20",
    ),
    Mutation(
        "a worker never looks at its deadline",
        "elif answer is None and leaves_at and now >= leaves_at:",
        "elif False:",
        "tests/comm/test_spoke.py -k without_an_answer",
    ),
    Mutation(
        "a util that hangs is waited for",
        "futures.wait([outcome], max(0.0, seconds))",
        "futures.wait([outcome])",
        "tests/comm/test_util.py -k hangs",
    ),
    Mutation(
        "an answer that is there is thrown away since the worker looks late",
        "            answer = self._answer_to(frame, stream)\n            if answer is None and not",
        "            answer = None if leaves_at or now >= gives_up_at else self._answer_to(frame, stream)\n"
        "            if answer is None and not",
        "tests/comm/test_spoke.py",
    ),
    Mutation(
        "an answer of another exchange is taken for that of this one",
        "self._verdicts[frame.channel, frame.call] = frame",
        "self._verdicts[mine] = frame",
        "tests/comm/test_spoke.py",
    ),
    Mutation(
        "rank 0 takes part with any stranger",
        'self.proven = hmac.compare_digest(proof, self._talk.prove(b"worker"))',
        "self.proven = True",
        "tests/fuzz/test_channel.py -k guests",
    ),
    # -- whom and what the channel believes -----------------------------------------------------------------------
    Mutation(
        "a worker takes whoever listens for rank 0",
        'if not hmac.compare_digest(proof, talk.prove(b"rank 0" + code)):',
        "if False:",
        "tests/fuzz/test_channel.py -k greetings",
    ),
    Mutation(
        "frames that nobody has sealed are taken",
        "if not hmac.compare_digest(data[_HEAD.size :], _seal(",
        "if False and (data[_HEAD.size :], _seal(",
        "tests/comm/test_frames.py -k sealed",
    ),
    Mutation(
        "a frame that was sent before is taken again",
        "_seal(self._seals[1], self._received, data[: _HEAD.size])",
        "_seal(self._seals[1], 0, data[: _HEAD.size])",
        "tests/comm/test_frames.py",
    ),
    Mutation(
        "a payload without digest is taken where all need one",
        " or (self._whole and not whole)",
        "",
        "tests/comm/test_frames.py -k no-digest",
    ),
    Mutation(
        "the digest is not checked",
        "if hashlib.sha256(body if whole else body[:start]).digest() != digest:",
        "if False:",
        "tests/comm/test_frames.py -k sealed",
    ),
    Mutation(
        "memory is taken on a head's word",
        "np.empty(min(self._size, _AT_ONCE), np.uint8)",
        "np.empty(self._size, np.uint8)",
        "tests/comm/test_frames.py -k only_a_word",
    ),
    Mutation(
        "a result stands that nobody has confirmed",
        "        if not meeting.acknowledged:\n            ranks =",
        "        if False:\n            ranks =",
        "tests/comm/test_hub.py -k confirms",
    ),
    Mutation(
        "workers that have parted are not told",
        "        if min(made) < last:",
        "        if False:",
        "tests/comm/test_hub.py -k parted",
    ),
    Mutation(
        "a worker that gives up as rank 0 decides is not heard",
        "            while self._receive(0, gave_up):\n                pass",
        "            pass",
        "tests/comm/test_hub.py -k gives_up",
    ),
    Mutation(
        "what cannot be read is another rank's",
        'f"what rank {rank} sent cannot be read',
        'f"what rank {rank + 1} sent cannot be read',
        "tests/comm/test_blocks.py",
    ),
    Mutation(
        "32768 is taken for an int16",
        'high < 2**15 else "4"',
        'high <= 2**15 else "4"',
        "tests/comm/test_blocks.py -k narrowest",
    ),
    Mutation(
        "sums of narrow integers are narrow",
        "total = parts[0].astype(np.int32 if max(sizes) == 2 and len(parts) <= 2**16 else np.int64)",
        "total = parts[0].copy()",
        "tests/comm/test_blocks.py -k narrow",
    ),
    Mutation(
        "states of any dtype are taken",
        " or dtype not in _STATE_DTYPES.values():",
        ":",
        "tests/comm/test_blocks.py -k no_worker_sends",
    ),
    Mutation(
        "objects are pickled for workers that have not proved who they are",
        "pickles = allow_pickle and self.authenticated",
        "pickles = allow_pickle",
        "tests/comm/test_objects.py",
    ),
    Mutation(
        "rank 0 listens on all interfaces",
        "sock.bind(address)",
        'sock.bind(("0.0.0.0", address[1]))',
        "tests/comm/test_handshake.py -k own_address",
    ),
    Mutation(
        "all users can read the secret",
        "os.O_EXCL, 0o600)",
        "os.O_EXCL, 0o644)",
        "tests/comm/test_job.py -k one_user",
    ),
    Mutation(
        "a secret that others can read is used",
        " and not found.st_mode & 0o077",
        "",
        "tests/comm/test_job.py -k others_can_read",
    ),
    Mutation(
        "workers on two machines are taken for those of one",
        "== 1\n\n    def candidates",
        ">= 1\n\n    def candidates",
        "tests/comm/test_job.py -k machine",
    ),
    # -- states -------------------------------------------------------------------------------------------------
    Mutation(
        "a sum of integers wraps around in one worker",
        'return combine("sum", [state, increment], _OF_BATCHES)',
        "return np.add(state, increment)",
        "tests/test_state.py -k does_not_fit",
    ),
    Mutation(
        "a sum of two numbers wraps around in one worker",
        "    if type(total) is int and not -(2**63) <= total < 2**63:",
        "    total = (total + 2**63) % 2**64 - 2**63 if type(total) is int else total\n    if False:",
        "tests/metrics/test_aggregation.py -k overflow",
    ),
    Mutation(
        "reset forgets one state",
        "        for state in self._states():\n            state.reset(scope)",
        "        for state in self._states()[:-1]:\n            state.reset(scope)",
        "tests/test_contract.py -k 'reset_forgets_everything and numpy'",
    ),
    Mutation(
        "reset forgets the records",
        "            table.reset()",
        "            table.name",
        "tests/test_contract.py -k 'reset_forgets_everything and exact'",
    ),
    Mutation(
        "merge drops one side",
        "if not state.dealt} for each in every]",
        "if not state.dealt} for each in every[1:]]",
        "tests/test_contract.py -k 'merging_workers and numpy'",
    ),
    Mutation(
        "merge takes metrics of other settings",
        "if differs or kinds != [holder.kind for holder in every[-1]]:",
        "if type(self) is not type(each):",
        "tests/test_contract.py -k 'merging_another'",
    ),
    Mutation(
        "what a failing batch has added stays",
        "                state.back_to(mark)\n            raise",
        "                pass\n            raise",
        "tests/test_atomic.py",
    ),
    Mutation(
        "a sum of floats that has overflowed is not looked for when a batch is added",
        "                    state.raise_if_overflown()",
        "                    pass",
        "tests/test_atomic.py",
    ),
    Mutation(
        "a sum of floats that has overflowed is not looked for in compute",
        "            state.raise_if_overflown(value)",
        "            pass",
        "tests/test_atomic.py",
    ),
    Mutation(
        "a static state starts at 0 whatever its reduction",
        "lambda: paddle_ops.identity(shape, dtype, reduction)",
        'lambda: paddle_ops.identity(shape, dtype, "sum")',
        "tests/static/test_variables.py -k starts_at_the_identity",
    ),
    Mutation(
        "two programs share a state that neither asked to share",
        "    if not share:\n        raise DuplicateStateError(",
        "    if False:\n        raise DuplicateStateError(",
        "tests/static/test_variables.py -k 'a_name_that or metrics_of_one_name'",
    ),
    Mutation(
        "two metrics share a state though they fill it with different things",
        "if before is not increment and not _identical(before, increment):",
        "if False:",
        "tests/test_collection.py -k 'different or share'",
    ),
    Mutation(
        "states of a collection are shared whatever they count",
        'return (self.name.rpartition(".")[2], self.shape, self.reduction, self.key)',
        "return (self.shape, self.reduction)",
        "tests/test_collection.py -k 'value_is_that or settings_that or shared'",
    ),
    # -- a batch ------------------------------------------------------------------------------------------------
    Mutation(
        "the mask is ignored",
        "for array in (self.mask, self.weight) if array is not None]",
        "for array in (self.weight,) if array is not None] or [self.xp.cast(self.xp.ones_like(self._each), 'bool')]",
        "tests/batch/test_batch.py tests/test_contract.py -k 'dropped_sample or empty_batch'",
    ),
    Mutation(
        "the weight is ignored in sums",
        'values = xp.multiply(xp.cast(values, "float64"), self.weight)',
        'values = xp.cast(values, "float64")',
        "tests/test_contract.py -k 'value_equals and numpy and real'",
    ),
    Mutation(
        "weights are rounded to float32",
        'self.weight = xp.cast(self._per_sample(weight, "weight", full), "float64")',
        'self.weight = xp.cast(xp.cast(self._per_sample(weight, "weight", full), "float32"), "float64")',
        "tests/test_contract.py tests/batch/test_batch.py -k '(value_equals and numpy and real) or weight'",
    ),
    Mutation(
        "predictions are averaged in float32",
        'return self.xp.cast(self.prediction, "float64")',
        'return self.xp.cast(self.prediction, "float32")',
        "tests/test_contract.py tests/batch/test_batch.py -k 'large_batch or does_not_stop'",
    ),
    Mutation(
        "invalid samples are not looked for",
        "rules = applicable(tuple(requirements), self.classes, self.weight is not None) if validate else []",
        "rules = []",
        "tests/test_contract.py -k 'broken_sample_is_an_error and squared'",
    ),
    Mutation(
        "validate=False is ignored",
        "rules = applicable(tuple(requirements), self.classes, self.weight is not None) if validate else []",
        "rules = applicable(tuple(requirements), self.classes, self.weight is not None)",
        "tests/test_contract.py -k 'validate_false'",
    ),
    Mutation(
        "invalid samples of a static program are not told",
        "        invalid = values[self.invalid].item()",
        "        invalid = 0",
        "tests/test_contract.py -k 'static_program_leaves_a_broken'",
    ),
    Mutation(
        "a statistic that was made with other settings is used again",
        "batch.memo, (function, settings) if settings else function",
        "batch.memo, function",
        "tests/batch/test_batch.py -k statistic",
    ),
    Mutation(
        "an entry that lies outside of a state goes into another one",
        "    if inside is None or (xp.is_eager(inside) and xp.all_true(inside)):",
        "    if True:",
        "tests/metrics/test_hostile_input.py -k 'nothing_is_checked or lanes_leave_out'",
    ),
    Mutation(
        "replicates of a slice use the sums of all samples",
        "        batch.lanes, batch.memo = lanes, {}\n        if self.lanes",
        "        batch.lanes = lanes\n        if self.lanes",
        "tests/batch/test_lanes.py",
    ),
    # -- buckets, ties ------------------------------------------------------------------------------------------
    Mutation(
        "linear buckets are rounded to the nearest",
        "return (score * score.dtype.type(top)).astype(np.int64)",
        "return (score * score.dtype.type(top) + score.dtype.type(0.5)).astype(np.int64)",
        "tests/metrics/test_auc.py -k bucket",
    ),
    Mutation(
        "a score on an edge falls below it",
        'return np.searchsorted(edges, array, side="right" if right else "left")',
        'return np.searchsorted(edges, array, side="left")',
        "tests/metrics/test_calibration.py tests/metrics/test_curves.py",
    ),
    Mutation(
        "log-odds buckets are one too high",
        "index -= layout.first",
        "index -= layout.first - 1",
        "tests/xp/test_score_buckets.py -k lowest_score",
    ),
    Mutation(
        "ties in the AUC of histograms count as right",
        "twice_area = 2 * right_or_tied - tied",
        "twice_area = 2 * right_or_tied",
        "tests/formulas/test_auc.py",
    ),
    Mutation(
        "ties in the exact AUC count as right",
        "2 * int(np.dot(above, n)) + int(np.dot(p, n))",
        "2 * int(np.dot(above, n))",
        "tests/formulas/test_exact_auc.py",
    ),
    Mutation(
        "ties of several samples in the exact AUC of keys count as those of two",
        "tied += int(np.dot(n, p)) - len(last)",
        "tied += 0",
        "tests/formulas/test_exact_auc.py",
    ),
    Mutation(
        "keys of float32 and float64 scores are compared",
        'if len({part["keys"].dtype if "keys" in part else None for part in parts}) > 1:',
        'if len({"keys" in part for part in parts}) > 1:',
        "tests/metrics/test_exact_auc.py",
    ),
    Mutation(
        "the weight of a batch is not checked",
        'names = {*asked, "weight"} if weighted else {*asked}',
        "names = {*asked}",
        "tests/test_error_names.py",
    ),
    Mutation(
        "what rounding has left of a batch's mean is lost",
        "mean, rest = two_sum(middle, step)\n    xx",
        "mean, rest = middle, 0.0\n    xx",
        "tests/metrics/test_distribution.py -k variance",
    ),
    Mutation(
        "a tie across blocks of the exact AUC is cut",
        "        if end < length:\n            end = ",
        "        if end < 0:\n            end = ",
        "tests/formulas/test_exact_auc.py -k several_blocks",
    ),
    Mutation(
        "of equal scores the higher class comes first",
        "return np.sum((scores > own) | ((scores == own) & lower), axis=1)",
        "return np.sum((scores > own) | ((scores == own) & ~lower), axis=1) - 1",
        "tests/metrics/test_classification.py -k equal_scores",
    ),
    Mutation(
        "a quotient of two counts goes through floats",
        "return float(above / below)",
        "return float(float(above) / float(below))",
        "tests/formulas/test_ratio.py",
    ),
    # -- padding and records ------------------------------------------------------------------------------------
    Mutation(
        "the padding is off by one",
        "return (positions >= self.samples) & ~",
        "return (positions > self.samples) & ~",
        "tests/test_sampling.py -k 'real_sampler and True-0'",
    ),
    Mutation(
        "the padding of the last, shorter block is off by one",
        "own += min(max(self.samples - self.end - rank * self.rest, 0), self.rest)",
        "own += min(max(self.samples - self.end - rank * self.rest + 1, 0), self.rest)",
        "tests/test_sampling.py -k 'real_sampler and False-0 or example'",
    ),
    Mutation(
        "padding is not trimmed",
        "else ~share.dealing.dealt.mask(self._rank)",
        "else ~share.dealing.dealt.mask(self._rank) | True",
        "tests/distributed/test_records.py -k 'paddles_sampler and bare-4'",
    ),
    Mutation(
        "the epoch of the next pass is taken for that of this one",
        'return max(0, epoch - 1) if getattr(inner, "shuffle", False) else epoch',
        "return epoch",
        "tests/test_base_metric.py -k sampler",
    ),
    Mutation(
        "records of the workers stand rank after rank",
        "            array[where] = part\n        return array",
        "            array[where] = part\n        return np.concatenate(list(parts))",
        "tests/records/test_pieces.py",
    ),
    Mutation(
        "the blocks of one turn are taken in any order",
        "starts[order] = np.cumsum(lengths[order]) - lengths[order]",
        "starts[order[::-1]] = np.cumsum(lengths[order[::-1]]) - lengths[order[::-1]]",
        "tests/test_sampling.py -k 'no_record or block_by_block or kept_count or slices'",
    ),
    Mutation(
        "a sample that came twice counts twice",
        "    distinct, first = np.unique(ids, return_index=True)\n",
        "    distinct, first = ids, np.argsort(ids)\n",
        "tests/test_base_metric_columns.py -k twice",
    ),
    Mutation(
        "two records of one id that differ go unnoticed",
        "        _check_repeated(columns, ids, distinct, first)\n",
        "        pass\n",
        "tests/test_base_metric_columns.py -k differ",
    ),
    Mutation(
        "what belongs together by the order of the records is cut",
        'np.searchsorted(column, cuts, "right").tolist()',
        '(np.searchsorted(column, cuts, "right") - 1).clip(0).tolist()',
        "tests/distributed/test_fold.py -k 'each_user and [2'",
    ),
    Mutation(
        "pickles are read though they are not allowed",
        '        if not self.allow_pickle:\n            raise RecordError(f"this payload',
        '        if False:\n            raise RecordError(f"this payload',
        "tests/serial/test_serializer.py -k unless_it_is_allowed",
    ),
    Mutation(
        "pickles are read that are not what the layout says",
        "if hashlib.sha256(data).hexdigest() != digest:",
        "if False:",
        "tests/serial/test_serializer.py -k not_what_the_layout_says",
        "serial/reader.py",
    ),
    Mutation(
        "workers that have not proved who they are send pickles",
        "share.metric.allow_pickle and channel.authenticated",
        "share.metric.allow_pickle",
        "tests/distributed/test_records_errors.py -k 'by and whom'",
    ),
    # -- wrappers -----------------------------------------------------------------------------------------------
    Mutation(
        "a window holds a batch too many",
        'Turn(f"{prefix}.turn", self.last)',
        'Turn(f"{prefix}.turn", self.last + 1)',
        "tests/wrappers/test_windowed.py -k last_batches",
    ),
    Mutation(
        "a batch of which nothing counts takes a place in the window",
        "return Step(self._turn, one, None) if xp.host(batch.keep).any() else None",
        "return Step(self._turn, one, None)",
        "tests/wrappers/test_windowed.py -k takes_no_place",
    ),
    Mutation(
        "every replicate of a bootstrap is the whole",
        "    return times.T\n",
        "    return np.ones_like(times).T\n",
        "tests/batch/test_hashing.py",
    ),
    Mutation(
        "without ids, the samples in no entry of the first state are not drawn",
        "mean = np.minimum(np.append(counts, rest), _LARGEST)",
        "mean = np.minimum(np.append(counts, 0), _LARGEST)",
        "tests/wrappers/test_bootstrap.py -k 'hang_together or spread_as'",
    ),
    Mutation(
        "two seeds draw the same samples",
        "hashlib.blake2b(str(seed).encode(), digest_size=12)",
        'hashlib.blake2b(b"0", digest_size=12)',
        "tests/batch/test_hashing.py -k seed",
    ),
    Mutation(
        "the largest keys are kept and the smallest evicted",
        "            keys, rows, evicted = keys[order][: self.limit], rows[: self.limit], rows[self.limit :]",
        "            keys, rows, evicted = keys[order][-self.limit :], rows[-self.limit :], rows[: -self.limit]",
        "tests/wrappers/test_sliced.py -k 'smallest_keys'",
    ),
    Mutation(
        "what evicted keys held is lost",
        "        self._evict(plan)\n        if increment is None:",
        "        if increment is None:",
        "tests/wrappers/test_sliced.py -k 'smallest_keys or merging_in_any'",
    ),
    Mutation(
        "the rows of keys that no worker keeps are lost in the exchange",
        "[range(int(np.searchsorted(places, size)), len(places) + 1) for places in self._places]",
        "[range(len(places), len(places) + 1) for places in self._places]",
        "tests/wrappers/test_sliced.py -k 'smallest_keys'",
    ),
    Mutation(
        "a quotient of metrics by 0 is inf",
        'return one / other if other else undefined("a quotient of metrics", "the divisor is 0")',
        "return np.float64(one) / np.float64(other)",
        "tests/test_expression.py -k divisor",
    ),
    # -- on a device ------------------------------------------------------------------------------------------
    Mutation(
        "each state crosses from the device on its own",
        "for state, value in zip(states, *together_to_host([held])):",
        "for state, value in zip(states, [together_to_host([[each]])[0][0] for each in held]):",
        "tests/test_device.py -k a_collection",
    ),
    Mutation(
        "a constant crosses to the device with every batch",
        "@functools.lru_cache(maxsize=64)\ndef _on_device(",
        "def _on_device(",
        "tests/test_device.py -k a_collection",
    ),
    Mutation(
        "the number of samples is copied to the device",
        "return number(tensor.size) if is_eager_tensor(tensor) else cast(",
        "return cast(",
        "tests/test_device.py -k 'waits_for_nothing and accuracy'",
    ),
    Mutation(
        "samples on a device are those that their owner writes there later",
        "v.copy() if isinstance(v, np.ndarray) else v.clone() for v in given",
        "v for v in given",
        "tests/test_device.py -k changes_nothing",
    ),
]
