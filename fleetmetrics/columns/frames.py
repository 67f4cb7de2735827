"""Convert columns of Arrow data, of a file or a data frame, to the arguments of ``add``."""

from __future__ import annotations

import contextlib
import copy
import functools
from typing import Any, Callable, Collection, Mapping, Sequence

import numpy as np

from fleetmetrics.batch.keys import crossed
from fleetmetrics.batch.rules import REQUIREMENTS
from fleetmetrics.columns.arrow_values import (
    array_in,
    arrow,
    arrow_keys,
    cleaned_keys,
    days_in,
    decoded,
    keys_in,
    nulls_in,
    nulls_of,
    numbers_in,
    texts_in,
    unknown_rows,
)
from fleetmetrics.columns.frame_columns import (
    array_of_column,
    columns_read,
    table_of_pandas,
    table_of_polars,
    with_others,
)
from fleetmetrics.columns.nested import Inside, inside, is_list, is_vector, item_in
from fleetmetrics.columns.partitions import FOLDERS, NUMERAL, in_words, types_of, values_of
from fleetmetrics.columns.reading import Reading, named_labels
from fleetmetrics.columns.understood import label_in_words, score_in_words
from fleetmetrics.errors import DataError, InvalidInputError
from fleetmetrics.support.hints import did_you_mean, near
from fleetmetrics.support.vocabulary import agreeing, counted, in_shell
from fleetmetrics.support.vocabulary import argument as called

__all__ = ["Columns", "arguments_of", "table_of"]


class Columns:
    """The column of the data for each argument of ``add``, and the conversion of its values.

    Args:
        metrics: a metric or a collection, which knows which arguments are keys; all others are numbers. None: no column
            is an argument.
        columns: the column by argument, or several columns, which become those of a matrix.
        reading: options of reading.
    """

    keys: set[str]
    names: list[str]
    required: list[str]
    reading: Reading
    #: The columns that only leave out rows; and all those in which an empty string is a null.
    looked_at: Sequence[str]
    coded: Collection[str]
    #: Whether each label is a task of its own, which rows may lack.
    labels_apart: bool
    #: The requested values inside of columns of the current file, by the names that the user gave.
    inside: Mapping[str, Inside] = {}  # never changed

    as_dictionary: set[str]
    #: What was understood: by name, the kinds seen; see `understand`.
    understood: dict[str, list[str]]

    #: What replaces a JSON field that is not requested, or that appears too late to be known.
    unexpected = "ignore"

    def __init__(
        self, metrics: Any = None, columns: Mapping[str, Any] | None = None, reading: Reading | None = None
    ) -> None:
        self.reading = reading or Reading()
        self._leaves: Sequence[Any] = () if metrics is None else metrics.leaf_metrics()
        self.by_argument: dict[str, Any] = {
            name: column for name, column in (columns or {}).items() if column is not None
        }
        self._keys = {name for leaf in self._leaves for name in leaf.columns}
        sure = {name for leaf in self._leaves for name in leaf.columns if name not in leaf.nullable}
        self._slices = self._keys - sure
        for argument, column in self.by_argument.items():
            names = self.of(argument)
            if not names or not all(isinstance(name, str) for name in names):
                raise InvalidInputError(f"{argument} must be the name of a column, or a list of names, not {column!r}")
        if metrics is not None and not self.by_argument:
            raise InvalidInputError("columns is empty; name the column of each argument, such as prediction='score'")
        #: The requested columns, each once.
        self.names = list(dict.fromkeys(name for argument in self.by_argument for name in self.of(argument)))
        #: Those that are keys, and numbers in no argument.
        self.keys = set(self.names).difference(
            *[self.of(argument) for argument in self.by_argument if argument not in self._keys]
        )
        #: Those that must have a value in each row; a row without one of the others is in a slice of its own.
        needed = {
            name
            for argument in self.by_argument
            if argument in sure or argument not in self._keys
            for name in self.of(argument)
        }
        self.labels_apart = "label" in self.by_argument and metrics.labels_apart
        if self.labels_apart:
            needed -= {name for argument in ("label", "prediction") for name in self.of(argument)} & {*self.names}
        self.required = [name for name in self.names if name in needed and name not in self.reading.may_lack]
        condition = self.reading.condition
        joined = [self.reading.joined[0]] if self.reading.joined else []
        self.keys.update(joined)
        looked_at = dict.fromkeys([*joined, *(condition.names if condition else ())])
        self.looked_at = [name for name in looked_at if name not in self.names]
        named = [
            name for argument in ("prediction", "label") if argument in self.by_argument for name in self.of(argument)
        ]
        self.coded = {*self.keys, *self.looked_at, *(named if self.reading.names_labels else ())}
        #: Those of them whose strings are read as a dictionary: ids that stay in Arrow are all different.
        self.as_dictionary = self.coded.difference(*(self.of(argument) for argument in self.reading.in_arrow))
        #: The values from folders' names, for all rows of a file, by column; and their Arrow types.
        self.of_folders: Mapping[str, str | None] = {}
        self.folder_types: Mapping[str, str] = {}
        #: The columns of texts and tags, which the metrics take as they are; an empty one is a text, too.
        self.texts: set[str] = set()
        self._samples = "numbers" if metrics is None else metrics.samples
        if self._samples in ("texts", "tags"):
            self.texts = {name for argument in ("prediction", "label") for name in self.of(argument)} & {*self.names}
            self._check_texts()
        self._check_order()
        self.understood = {}

    @functools.cached_property
    def _of_classes(self) -> bool:
        """Whether the one column of predictions holds names of classes for any metric: none takes a probability."""
        return any(leaf.one_hot.several for leaf in self._leaves)

    def _check_texts(self) -> None:
        """InvalidInputError if an option of reading is for numbers, where the metrics take texts."""
        reading = self.reading
        is_given = {
            "positive": reading.positive is not None,
            "classes": reading.classes is not None,
            "from_logits": reading.from_logits,
            "scale": reading.scale != 1.0,
        }
        name = next((name for name, given in is_given.items() if given), None)
        if self.labels_apart:
            raise InvalidInputError(
                f"{called('label')} names several tasks, and metrics of texts have one; write several references of a "
                "row as a list in one column"
            )
        if name is not None:
            raise InvalidInputError(f"{called(name)} is for numbers, and the metrics take {self._samples}")

    def _check_order(self) -> None:
        """InvalidInputError if the columns of scores have the classes' names, but another order."""
        names, classes = self.of("prediction"), self.reading.classes
        if classes is None and self._of_classes:
            classes = [*map(str, range(len(names)))]
        if classes is None or len(names) < 2 or len(names) != len(classes):
            return
        for class_name in classes:
            before, separator, after = names[0].partition(class_name)
            wanted = [f"{before}{name}{after}" for name in classes]
            if separator and names != wanted and sorted(names) == sorted(wanted):
                raise InvalidInputError(
                    f"the columns of scores are {', '.join(names)}, but {called('classes')} {', '.join(classes)} has "
                    f"another order; give the scores as {','.join(wanted)}, or the classes in the order of the scores"
                )

    def understand(self, name: str, kind: str) -> None:
        """Record what something was taken as, for the result to say; once for a file or a piece, never for a row.

        Args:
            name: of what: an argument, a column, or an option such as "quotes".
            kind: what it was taken as, such as "0 and 1 (int64)" or "integers, from folders"; files may differ.
        """
        kinds = self.understood.setdefault(name, [])
        if kind not in kinds:
            kinds.append(kind)

    @property
    def numeric_labels(self) -> list[str]:
        """The columns whose labels must be numbers."""
        return self.of("label") if "label" in self.by_argument and not self.reading.names_labels else []

    def of(self, argument: str) -> list[str]:
        """The columns of an argument."""
        column = self.by_argument.get(argument, argument)
        return list(column) if isinstance(column, (list, tuple)) else [column]

    def chosen(self, there: Sequence[str]) -> list[str]:
        """The requested columns of those present; DataError for one that is neither present nor in folders' names."""
        own, there = there, [*there, *(name for name in self.of_folders if name not in there)]
        named_by = {name: called(argument) for name, argument in self.reading.named_by.items()}
        wanted = [(name, named_by.get(name, argument)) for argument in self.by_argument for name in self.of(argument)]
        looked_at = ((name, named_by.get(name, called("where"))) for name in self.looked_at)
        paths_inside = {name: inside(name, own) for name in (*self.names, *self.looked_at) if name not in there}
        self.inside = {name: its for name, its in paths_inside.items() if its is not None}
        for name, what in [*wanted, *looked_at]:
            name = self.inside[name].column if name in self.inside else name
            if name not in there:
                hint = did_you_mean(map(repr, near(name, there))) or "."
                role = "" if what == name else f" for {what}"  # a slice's argument has its column's name
                raise DataError(f"no column {name!r}{role}{hint} There are {', '.join(map(repr, there)) or 'none'}")
            if own.count(name) > 1:
                raise DataError(f"{own.count(name)} columns are called {name!r}; rename them until only one is")
        columns = (self.inside[name].column if name in self.inside else name for name in (*self.names, *self.looked_at))
        return [name for name in dict.fromkeys(columns) if name in own]

    def opened(self, table: Any) -> Any:
        """A table with the requested values inside of its columns as columns of their own."""
        for name, its in self.inside.items():
            table = table.append_column(name, its.of(table.column(its.column).combine_chunks()))
        outer = {its.column for its in self.inside.values()} - {*self.names, *self.looked_at}
        return table.drop_columns(list(outer)) if outer else table

    def within(self, path: str) -> Columns:
        """The same, of a file in folders that are called like ``day=2026-11-01``, as Hive and Spark have them."""
        its = copy.copy(self)
        its.of_folders, types = values_of(path), getattr(path, "types", None)
        its.folder_types = types_of([path]) if types is None else types
        return its

    def with_folders(self, table: Any) -> Any:
        """A table of a file, with the requested columns that only the folders' names have."""
        pa = arrow()
        for name in (*self.names, *self.looked_at):
            if name not in table.column_names:
                kind = "string" if name in self.reading.text else self.folder_types[name]
                type = pa.string() if kind in ("string", NUMERAL) else pa.type_for_alias(kind)
                self.understand(name, f"{in_words(kind)}, from folders")
                text = self.of_folders[name]
                known = text is not None and (text != "" or type == pa.string())
                values = pa.array([text if known else None], pa.string()).cast(type)
                places = np.zeros(table.num_rows, np.int32)
                column = pa.DictionaryArray.from_arrays(pa.array(places), values)
                field = pa.field(name, column.type, metadata={FOLDERS: kind})
                table = table.append_column(field, column)
        return table

    def ready(self, table: Any) -> Any:
        """A table as read, with the folders' columns, keys as strings where requested, and nulls for empty strings."""
        table = decoded(self.with_folders(self.opened(table)))
        for place, name in enumerate(table.column_names):
            if name in self.coded:
                column = table.column(name)
                as_keys = functools.partial(cleaned_keys, as_text=name in self.reading.text, null=self.reading.null)
                keys = _made_by(as_keys, table, name)
                if keys is not None:
                    table = table.set_column(place, name, keys) if len(column) else table
        return table

    def kind(self, name: str, first: Any, whole: bool = False) -> Any:
        """The Arrow type to read a column of text as, whose first values are of this type.

        Args:
            name: of the column.
            first: the type.
            whole: whether these are floats, and all of them whole numbers.
        """
        pa = arrow()
        if name in self.looked_at and name not in self.keys:
            literal = self.reading.condition.kind(name) if self.reading.condition else None
            number = first if first in (pa.int64(), pa.uint64()) else pa.float64()
            number = pa.int64() if first == pa.null() else number  # numbers that are not whole make them floats
            if number == pa.float64():
                self.check_large(name)
            return {bool: pa.bool_(), int: number, float: number}.get(literal, pa.string())  # type: ignore[arg-type]
        if self.reading.names_labels and "label" in self.by_argument and name in self.of("label"):
            return pa.string()
        if self.reading.classes is not None and name not in self.keys and self._names_classes(first, name):
            return pa.string()
        if name in self.keys:
            if name in self.reading.text:
                return pa.string()
            if first == pa.uint64():
                return first if name in self.required else pa.string()  # slices have no keys of 2**63 or more
            return first if first == pa.int64() or (whole and first == pa.float64()) else pa.string()
        if name in self.texts:
            return pa.list_(pa.string()) if is_list(first) else pa.string()
        if is_list(first):
            return pa.list_(pa.float64())
        return first if first == pa.bool_() else pa.float64()

    def check_large(self, name: str) -> None:
        """Raise DataError if the condition looks for an integer that floats, as which a column is read, skip."""
        large = self.reading.condition.large(name) if self.reading.condition else None
        if large is not None:
            what = f"column {name!r} holds no integers of 64 bits, and {called('where')} looks for {large} in it"
            raise DataError(f"{what}; compare strings: {called('text', name)} with {name} = '{large}'")

    def arguments(self, table: Any) -> dict[str, Any]:
        """The arguments of ``add``, from a table of one chunk per column, without nulls in those that are `required`.

        Several columns of numbers make a matrix; several keys one of all combinations. DataError for a wrong type.
        """
        return {argument: self.argument(argument, table) for argument in self.by_argument}

    def argument(self, argument: str, table: Any) -> Any:
        """One of the `arguments`."""
        column, is_key = self.by_argument[argument], argument in self._keys
        make = self._maker(argument, is_key)
        if argument == "prediction" and self.reading.names_labels:
            arrays = [_made_by(functools.partial(self._answers, name=name), table, name) for name in self.of(argument)]
        else:
            arrays = [_made_by(make, table, name) for name in self.of(argument)]
        lists = [name for name, array in zip(self.of(argument), arrays) if not is_key and array.ndim > 1]
        if lists and len(arrays) > 1:
            raise DataError(f"column {lists[0]!r} holds lists, and several columns hold one value a row each")
        values: Any = arrays[0]
        if not isinstance(column, str):
            values = crossed(arrays) if is_key else np.stack(arrays, axis=1)
        if argument in self._slices and values.dtype == np.uint64 and len(values) and values.max() >= 2**63:
            how = f"{called('text', str(column))} makes strings"
            raise DataError(f"column {column!r} holds {values.max()}; slices take integers below 2**63: {how}")
        if argument != "prediction" or self.texts:
            return values
        if len(arrays) > 1 and "label" in self.by_argument and len(self.of("label")) == len(arrays):
            return np.stack([self.reading.scores(array) for array in arrays], axis=1)  # a score for each label
        return self.reading.scores(values)

    def _maker(self, argument: str, is_key: bool) -> Callable[[Any], Any]:
        """What makes the values of an argument from a column."""
        if argument in self.reading.in_arrow:
            return arrow_keys
        if is_key:
            return days_in if self.of(argument) == [self.reading.cut] else keys_in
        if self.texts and argument in ("prediction", "label"):
            metric = next(leaf.name for leaf in self._leaves if leaf.samples == self._samples)
            return functools.partial(texts_in, tags=self._samples == "tags", metric=metric)
        return self._labels if argument == "label" else numbers_in

    def lacking(self, table: Any, nulls: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Flags of the rows that have no value where they need one, by column; only the columns with such rows.

        Args:
            table: the rows.
            nulls: the flags of `nulls_of`.
        """
        lacking = {name: flags for name, flags in nulls.items() if name in self.required}
        if self.labels_apart:  # a row without a task's label needs no score for it
            for label, score in zip(self.of("label"), self.of("prediction")):
                flags = nulls[score] & ~unknown_rows(table, label, nulls) if score in nulls else np.zeros(0, bool)
                if flags.any():
                    lacking[score] = lacking.get(score, np.zeros(len(flags), bool)) | flags
        return lacking

    def understand_numbers(self, table: Any, arguments: Mapping[str, np.ndarray]) -> None:
        """Record what labels and scores were taken as, where a result will say it.

        Args:
            table: the rows.
            arguments: those of `arguments`.
        """
        rules = {rule for leaf in self._leaves for rule in leaf.requirements}
        asked = [REQUIREMENTS[rule] if isinstance(rule, str) else rule for rule in rules]
        for argument in ("label", "prediction"):
            names = self.of(argument) if argument in arguments and not self.texts else []
            for kind in dict.fromkeys(table.schema.field(name).type for name in names):
                if argument == "label":
                    self.understand("label", label_in_words(asked, self.reading, kind))
                else:
                    shape = arguments[argument].shape
                    shape, named = shape[:1] if self.labels_apart else shape, self._names_classes(kind, names[0])
                    self.understand("score", score_in_words(asked, self.reading, kind, shape, named))

    def joined(self, table: Any) -> np.ndarray | None:
        """Flags of the rows whose ids the other side has, too, and of those without an id; None: all rows count."""
        if self.reading.joined is None:
            return None
        name, common = self.reading.joined
        flags = common.flags(_made_by(keys_in, table, name))
        nulls = nulls_in(array_in(table, name))
        return flags if nulls is None else flags | nulls

    def _labels(self, array: Any) -> np.ndarray:
        if not self.reading.names_labels:
            try:
                return numbers_in(array)
            except InvalidInputError as error:
                raise InvalidInputError(f"{error}{named_labels(array[0].as_py())}") from None
        if is_list(array.type):
            raise InvalidInputError(
                f"holds lists; {called('positive')} and {called('classes')} are for labels of one value"
            )
        return self.reading.labels(array)

    def _names_classes(self, kind: Any, name: str) -> bool:
        """Whether a column of this type holds predictions that are names of classes, by the rule of labels."""
        if self.reading.classes is None or self.of("prediction") != [name] or is_list(kind) or is_vector(kind):
            return False
        return self._of_classes or not arrow().types.is_floating(kind)

    def _answers(self, array: Any, name: str) -> np.ndarray:
        """Predictions beside named classes: numbers, or names of classes."""
        kind = array.type.value_type if arrow().types.is_dictionary(array.type) else array.type
        if not self._names_classes(kind, name):
            answers = numbers_in(array)
            if answers.ndim == 1 and len(answers):
                self._check_no_labels(array, answers)
            return answers
        answers = self.reading.labels(array)
        if not self._of_classes and (answers < 0).any():  # the metric would compare them as they are
            place = int((answers < 0).argmax())
            allowed = ", ".join(self.reading.classes or ())
            raise InvalidInputError(
                f"holds {array[place].as_py()!r}, the first at position {place}, where the prediction must be one of "
                f"{called('classes')}, {allowed}, or a probability as a float"
            )
        return answers

    def _check_no_labels(self, array: Any, answers: np.ndarray) -> None:
        """InvalidInputError if all of these numbers, which the metrics compare with 0 and 1, may be labels as named."""
        reading = self.reading
        if reading.classes is not None:
            if reading.is_class(answers[0]):
                named = reading.labels(array)
                if (named >= 0).all() and (named != answers).any():
                    raise InvalidInputError(
                        f"holds only numbers that name {called('classes')}, such as {answers[0]:g}, where the metrics "
                        "take probabilities; give metrics of several classes, or predictions as integers or strings"
                    )
        elif reading.flips and answers[0] == np.floor(answers[0]) and (answers == np.floor(answers)).all():
            raise InvalidInputError(
                f"holds only whole numbers, such as {answers[0]:g}, beside "
                f"{called('positive', str(reading.positive))}: predictions are probabilities of that label. "
                f"If they are labels, give {called('task', 'multiclass')} and {called('classes')}, "
                f"or flags of the rows predicted as {reading.positive} as true and false"
            )

    def told(self, names: Sequence[str], argument: str, table: Any, place: int, value: Any, allowed: str) -> str:
        """The defect of an argument in a row, in terms of the data; ``names``: of its columns."""
        reading = self.reading
        own = [table.column(name)[place].as_py() for name in names if name in table.column_names]
        shown: Any = own[0] if len(own) == 1 else own
        named = argument == "label" or self._names_classes(table.schema.field(names[0]).type, names[0])
        if argument in ("label", "prediction") and reading.classes is not None and named:
            return f"{shown!r} where the {argument} must be one of {called('classes')}, {', '.join(reading.classes)}"
        of_probabilities = argument == "prediction" and allowed.startswith(("a probability", "probabilities in"))
        if of_probabilities and not reading.from_logits:
            allowed += f"; for logits give {'--from-logits' if in_shell() else 'from_logits=True'}"
            if isinstance(value, (int, float)) and 1 < value <= 100 and reading.scale == 1.0:
                allowed += f", for percent {called('scale', '0.01')}"
        if argument == "label" and allowed.startswith("a class") and isinstance(value, (int, float)):
            positive = called("positive", f"{value:g}")
            is_whole = value == value // 1
            allowed += f"; if {value:g} is the positive one, give {positive}" if is_whole else "; are these the scores?"
        if argument == "prediction" and (reading.scale != 1.0 or reading.from_logits):
            by = []
            if reading.scale != 1.0:
                by.append(called("scale", f"{reading.scale:g}"))
            if reading.from_logits:
                by.append(called("from_logits"))
            return f"{shown}, by {' and '.join(by)} {value}, where {argument} must be {allowed}"
        text = repr(value) if isinstance(value, str) else value
        return f"{text} where {argument} must be {allowed}"


def _made_by(make: Callable[[Any], Any], table: Any, name: str) -> Any:
    """Convert a column; DataError, which names it, for other contents."""
    try:
        return make(array_in(table, name))
    except InvalidInputError as error:
        item = item_in(table.schema.field(name).type, name)
        hint = f"; name a value in it, such as {item}" if item else ""
        raise DataError(f"column {name!r} {error}{hint}") from None


def arguments_of(metrics: Any, frame: Any, columns: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of metrics' ``add`` from a data frame; DataError for a missing column, a null or a wrong type."""
    wanted = Columns(metrics, columns)
    table = table_of(frame, wanted.names)
    try:
        table = wanted.ready(table.select(wanted.chosen(table.column_names)))
        for name, flags in nulls_of(table.select(wanted.required)).items():
            share = f"{flags.sum()} of {counted(len(flags), 'rows')} {agreeing(flags.sum(), 'have')} no value"
            text = f"{share}, the first at position {flags.argmax()}"
            raise DataError(f"column {name!r}: {text}; fill them, or leave such rows out")
        return wanted.arguments(table)
    except DataError as error:
        raise DataError(f"frame: {error}") from None


def table_of(frame: Any, names: Sequence[str], called: str = "frame") -> Any:
    """A data frame as an Arrow table; of pandas' and polars', and of dicts, only the requested columns.

    ``called``: the name of the argument.
    """
    pa = arrow()
    if isinstance(frame, Mapping):
        return _of_arrays(frame, names, called)
    maker, lazy = type(frame).__module__.split(".")[0], hasattr(frame, "collect")
    series = maker in ("pandas", "polars") and not lazy and not hasattr(frame, "columns")
    if maker in ("pandas", "polars") and not lazy and not series:
        return (table_of_pandas if maker == "pandas" else table_of_polars)(frame, names, called)
    if not series and (hasattr(frame, "__arrow_c_stream__") or hasattr(frame, "__arrow_c_array__")):
        with contextlib.suppress(pa.ArrowInvalid, TypeError, ValueError):  # of a single column
            return pa.table(frame)
    hint = "; call collect() first" if lazy else ""
    raise InvalidInputError(
        f"{called} must be a data frame of pandas, polars or pyarrow, or have __arrow_c_stream__, or a dict of arrays, "
        f"not {type(frame).__name__}{hint}"
    )


def _of_arrays(frame: Mapping[str, Any], names: Sequence[str], called: str) -> Any:
    """A table of arrays, one entry or row of each for each row; what is masked is null."""
    pa, arrays, size = arrow(), {}, -1
    columns, others = columns_read(names, list(frame))
    for name in columns:
        values = frame[name]
        try:
            array = array_of_column(str(name), values, called)
            size = len(array) if size < 0 and array.ndim else size
            if array.ndim not in (1, 2) or len(array) != size:
                rows = counted(size, "rows")
                wanted = f"one entry, or row, for each of {rows}" if size >= 0 else "an array"
                raise InvalidInputError(f"{called}: column {str(name)!r} must hold {wanted}, not {values!r:.80}")
            flat = pa.array(array.reshape(-1))
        except (pa.ArrowException, OverflowError) as error:
            raise InvalidInputError(f"{called}: column {str(name)!r} cannot be read: {error}") from None
        arrays[str(name)] = flat if array.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, array.shape[1])
    return with_others(pa.table(arrays), others, list(frame))
