"""Convert columns of Arrow data, of a file or a data frame, to the arguments of ``add``."""

from __future__ import annotations

import contextlib
import copy
import difflib
import functools
import uuid
from typing import Any, Callable, Collection, Mapping, Sequence

import numpy as np

from fleetmetrics.batch.keys import NULL, Coded, crossed, keys_of
from fleetmetrics.batch.rules import REQUIREMENTS
from fleetmetrics.columns.frame_columns import (
    array_of_column,
    columns_read,
    table_of_pandas,
    table_of_polars,
    with_others,
)
from fleetmetrics.columns.nested import Inside, dense, inside, is_list, is_vector, item_in
from fleetmetrics.columns.partitions import FOLDERS, NUMERAL, in_words, types_of, values_of
from fleetmetrics.columns.reading import Reading
from fleetmetrics.columns.understood import label_in_words, score_in_words
from fleetmetrics.errors import DataError, InvalidInputError
from fleetmetrics.support.optional import library
from fleetmetrics.support.vocabulary import agreeing, counted, in_shell
from fleetmetrics.support.vocabulary import argument as called

__all__ = ["Columns", "arguments_of", "array_of", "arrow", "decoded", "nulls_of", "table_of", "unnested"]


def arrow(module: str = "") -> Any:
    """A module of pyarrow, imported when something must be read; MissingLibraryError if it cannot be."""
    return library(f"pyarrow.{module}" if module else "pyarrow", "files")


class Columns:
    """The column of the data for each argument of ``add``, and the conversion of its values.

    Args:
        metrics: a metric or a collection, which knows which arguments are keys; all others are numbers.
        given: the column by argument, or several columns, which become those of a matrix.
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

    def __init__(self, metrics: Any, columns: Mapping[str, Any], reading: Reading | None = None) -> None:
        self.reading = reading or Reading()
        self.by_argument: dict[str, Any] = {name: column for name, column in columns.items() if column is not None}
        self._keys = {name for leaf in metrics.leaf_metrics() for name in leaf.columns}
        sure = {name for leaf in metrics.leaf_metrics() for name in leaf.columns if name not in leaf.nullable}
        self._slices = self._keys - sure
        for argument, column in self.by_argument.items():
            names = self.of(argument)
            if not names or not all(isinstance(name, str) for name in names):
                raise InvalidInputError(f"{argument} must be the name of a column, or a list of names, not {column!r}")
        if not self.by_argument:
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
        self.labels_apart = metrics.labels_apart and "label" in self.by_argument
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
        self._metrics = metrics
        self._check_order()
        self.understood = {}

    @functools.cached_property
    def _of_classes(self) -> bool:
        """Whether the one column of predictions holds names of classes for any metric: none takes a probability."""
        return any(leaf.one_hot.several for leaf in self._metrics.leaf_metrics())

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

    def of(self, argument: str) -> list[str]:
        """The columns of an argument."""
        column = self.by_argument.get(argument, argument)
        return list(column) if isinstance(column, (list, tuple)) else [column]

    def chosen(self, there: Sequence[str]) -> list[str]:
        """The requested columns of those present; DataError for one that is neither present nor in folders' names."""
        own, there = there, [*there, *(name for name in self.of_folders if name not in there)]
        options = {"prediction": called("score")} if in_shell() else {}
        wanted = [
            (name, options.get(argument, argument)) for argument in self.by_argument for name in self.of(argument)
        ]
        joined = self.reading.joined[0] if self.reading.joined else None
        looked_at = ((name, called("join_on" if name == joined else "where")) for name in self.looked_at)
        paths_inside = {name: inside(name, own) for name in (*self.names, *self.looked_at) if name not in there}
        self.inside = {name: its for name, its in paths_inside.items() if its is not None}
        for name, what in [*wanted, *looked_at]:
            name = self.inside[name].column if name in self.inside else name
            if name not in there:
                known, wanted_name = {column.lower(): column for column in there}, name.lower()
                near = [column for column in known if column.startswith(wanted_name)] or difflib.get_close_matches(
                    wanted_name, known
                )
                hint = f". Did you mean {known[near[0]]!r}?" if near else "."
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
                as_keys = functools.partial(_ready, as_text=name in self.reading.text, null=self.reading.null)
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
        if argument != "prediction":
            return values
        if len(arrays) > 1 and "label" in self.by_argument and len(self.of("label")) == len(arrays):
            return np.stack([self.reading.scores(array) for array in arrays], axis=1)  # a score for each label
        return self.reading.scores(values)

    def _maker(self, argument: str, is_key: bool) -> Callable[[Any], Any]:
        """What makes the values of an argument from a column."""
        if argument in self.reading.in_arrow:
            return _arrow_keys
        if is_key:
            return _keys
        return self._labels if argument == "label" else _numbers

    def lacking(self, table: Any, nulls: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Flags of the rows that have no value where they need one, by column; only the columns with such rows.

        Args:
            table: the rows.
            nulls: the flags of `nulls_of`.
        """
        lacking = {name: flags for name, flags in nulls.items() if name in self.required}
        if self.labels_apart:  # a row without a task's label needs no score for it
            for label, score in zip(self.of("label"), self.of("prediction")):
                flags = nulls[score] & ~_unknown(table, label, nulls) if score in nulls else np.zeros(0, bool)
                if flags.any():
                    lacking[score] = lacking.get(score, np.zeros(len(flags), bool)) | flags
        return lacking

    def understand_numbers(self, table: Any, arguments: Mapping[str, np.ndarray]) -> None:
        """Record what labels and scores were taken as, where a result will say it.

        Args:
            table: the rows.
            arguments: those of `arguments`.
        """
        rules = {rule for leaf in self._metrics.leaf_metrics() for rule in leaf.requirements}
        asked = [REQUIREMENTS[rule] if isinstance(rule, str) else rule for rule in rules]
        for argument in ("label", "prediction"):
            names = self.of(argument) if argument in arguments else []
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
        flags = common.flags(_made_by(_keys, table, name))
        nulls = _nulls(_array(table, name))
        return flags if nulls is None else flags | nulls

    def _labels(self, array: Any) -> np.ndarray:
        if not self.reading.names_labels:
            return _numbers(array)
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
            answers = _numbers(array)
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
        of_probabilities = argument == "prediction" and allowed.startswith(("a probability", "probabilities"))
        if of_probabilities and not reading.from_logits:
            allowed += f"; for logits give {'--from-logits' if in_shell() else 'from_logits=True'}"
        if argument == "prediction" and (reading.scale != 1.0 or reading.from_logits):
            by = []
            if reading.scale != 1.0:
                by.append(called("scale", f"{reading.scale:g}"))
            if reading.from_logits:
                by.append(called("from_logits"))
            return f"{shown}, by {' and '.join(by)} {value}, where {argument} must be {allowed}"
        return f"{value} where {argument} must be {allowed}"


def _made_by(make: Callable[[Any], Any], table: Any, name: str) -> Any:
    """Convert a column; DataError, which names it, for other contents."""
    try:
        return make(_array(table, name))
    except InvalidInputError as error:
        item = item_in(table.schema.field(name).type, name)
        hint = f"; name a value in it, such as {item}" if item else ""
        raise DataError(f"column {name!r} {error}{hint}") from None


def _is_text(kind: Any) -> bool:
    """Whether an Arrow type is one of strings, or of their bytes, perhaps in a dictionary."""
    types = arrow().types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return any(
        is_kind(kind) for is_kind in (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    )


def _ready(array: Any, as_text: bool, null: Sequence[str]) -> Any:
    """Keys with nulls for nan, empty strings and these, as strings if requested; None: unchanged."""
    pa, pc, types = arrow(), arrow("compute"), arrow().types
    kind, ready = array.type, None

    def are_empty(values: Any) -> Any:
        if null:
            return pc.is_in(values, pa.array(["", *null], values.type))
        return pc.equal(pc.binary_length(values), 0)

    if types.is_dictionary(kind):
        values = array.dictionary
        none = pc.fill_null(are_empty(values), True) if _is_text(kind) else values.is_null()
        if pc.any(none).as_py():
            places = pc.indices_nonzero(none).cast(array.indices.type)
            indices = pc.if_else(pc.is_in(array.indices, places), None, array.indices)
            ready = pa.DictionaryArray.from_arrays(indices, values)
    elif _is_text(kind):
        empty = are_empty(array)
        ready = pc.if_else(empty, None, array) if pc.any(empty).as_py() else None
    elif types.is_floating(kind):
        nan = pc.is_nan(array.cast(pa.float64()))
        ready = pc.if_else(nan, None, array) if pc.any(nan).as_py() else None
    if as_text and not _is_text(kind):
        ready = _as_texts(array if ready is None else ready)
    return ready


def _as_texts(array: Any) -> Any:
    pa = arrow()
    array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    try:
        return array.cast(pa.string())
    except pa.ArrowException:
        raise InvalidInputError(f"holds {array.type!s:.80}, of which {called('text')} can make no strings") from None


def _array(table: Any, name: str) -> Any:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks else column.combine_chunks()


def _plain_types() -> dict[str, Any]:
    """The types without views, by the names of those with them."""
    return {"string_view": arrow().large_string(), "binary_view": arrow().large_binary()}


def _without_runs(column: Any) -> Any:
    """A column without runs; pyarrow decodes no runs of dictionaries and of views, so their values come first."""
    pa = arrow()
    kind = column.type.value_type
    is_dictionary = pa.types.is_dictionary(kind)
    kind = kind.value_type if is_dictionary else kind
    kind = _plain_types().get(str(kind), kind)
    chunks = []
    for chunk in column.chunks:
        values = chunk.values
        if is_dictionary:
            values = values.dictionary.cast(kind).take(values.indices)
        runs = pa.RunEndEncodedArray.from_arrays(chunk.run_ends, values.cast(kind))
        chunks.append(arrow("compute").run_end_decode(runs.slice(chunk.offset, len(chunk))))
    return pa.chunked_array(chunks, kind)


def _without_extension(column: Any, field: Any) -> Any:
    """A column of a type that another library has added, as the values behind it; DataError for one of pandas."""
    pa = arrow()
    extended = isinstance(column.type, pa.BaseExtensionType)
    metadata = field.metadata or {}
    name = column.type.extension_name if extended else metadata.get(b"ARROW:extension:name", b"").decode()
    if name in ("pandas.interval", "pandas.period"):
        how = f"write it as strings: frame[{field.name!r}].astype(str)"
        raise DataError(
            f"column {field.name!r} holds {name.replace('.', ' ')}s, of which only pandas knows the text; {how}"
        )
    if not extended:
        return column
    stored = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    if name == "arrow.bool8":
        return stored.cast(pa.bool_())
    if name != "arrow.uuid":
        return stored
    texts = [value and str(uuid.UUID(bytes=value)) for value in stored.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.large_string())])


def decoded(table: Any) -> Any:
    """A table that can be filtered, without runs and views, whose columns have one chunk and one dictionary."""
    pa = arrow()
    plain = _plain_types()
    for place, column in enumerate(table.columns):
        if not all(map(len, column.chunks)):  # pyarrow cannot combine an empty slice of strings with others
            column = pa.chunked_array(filter(len, column.chunks), column.type)
            table = table.set_column(place, table.schema.field(place), column)
        if pa.types.is_run_end_encoded(column.type):
            column = _without_runs(column)
        if str(column.type) in plain:
            column = column.cast(plain[str(column.type)])
        elif pa.types.is_dictionary(column.type) and str(column.type.value_type) in plain:
            kind = plain[str(column.type.value_type)]
            chunks = [
                pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(kind)) for chunk in column.chunks
            ]
            column = pa.chunked_array(chunks, pa.dictionary(column.type.index_type, kind))
        column = _without_extension(column, table.schema.field(place))
        if column.type != table.schema.field(place).type:
            table = table.set_column(place, table.schema.field(place).with_type(column.type), column)
    return table.unify_dictionaries().combine_chunks()


def nulls_of(table: Any) -> dict[str, np.ndarray]:
    """Flags of the rows that have no value, or lack one in a list, by column; only the columns with such rows."""
    flags_by_name = {name: _nulls(_array(table, name)) for name in table.column_names}
    return {name: flags for name, flags in flags_by_name.items() if flags is not None}


def _unknown(table: Any, name: str, nulls: Mapping[str, np.ndarray]) -> np.ndarray:
    """Flags of the rows without a value, null or nan, in a column."""
    unknown = nulls.get(name, np.zeros(table.num_rows, bool))
    array = _array(table, name)
    nan = arrow("compute").is_nan(array).fill_null(True) if arrow().types.is_floating(array.type) else None
    return unknown if nan is None else unknown | np.asarray(nan)


def _nulls(array: Any) -> np.ndarray | None:
    pc = arrow("compute")
    nulls = np.asarray(pc.is_null(array)) if array.null_count else None
    if is_list(array.type):
        inner = _nulls(pc.list_flatten(array))
        if inner is not None:
            nulls = np.zeros(len(array), bool) if nulls is None else nulls.copy()
            nulls[np.asarray(pc.list_parent_indices(array))[inner]] = True
    return nulls


def unnested(array: Any) -> tuple[Any, list[int]]:
    """The values of an Arrow array, out of lists of the same length, and its shape."""
    pc, shape = arrow("compute"), [len(array)]
    while is_list(array.type):
        lengths = np.asarray(pc.list_value_length(array))
        if (lengths != lengths[:1]).any():
            break
        shape.append(int(lengths[0]) if len(lengths) else 1)
        array = pc.list_flatten(array)
    return array, shape


def array_of(values: np.ndarray) -> Any:
    """An Arrow array; of several axes one of lists."""
    array = arrow().array(values.reshape(-1))
    for length in reversed(values.shape[1:]):
        array = arrow().FixedSizeListArray.from_arrays(array, length)
    return array


def _wrong(array: Any, allowed: str, value: Any = None) -> InvalidInputError:
    shown = f"the first row has {array[0].as_py()!r:.80}" if value is None else f"a row has {value!r:.80}"
    types = arrow().types
    kind = array.type.value_type if types.is_dictionary(array.type) else array.type
    return InvalidInputError(f"must hold {allowed}, not {kind!s:.80}; {shown}")


def _numbers(array: Any) -> np.ndarray:
    """Bools, integers or floats; of lists a matrix."""
    pa = arrow()
    array, shape = unnested(dense(array) if is_vector(array.type) else array)
    if is_list(array.type):
        one, other, *_ = dict.fromkeys(arrow("compute").list_value_length(array).to_pylist())
        raise InvalidInputError(f"must hold lists of equal length, not of {one} and {other}")
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if pa.types.is_decimal(kind):
        array = array.cast(pa.float64(), safe=False)
    elif array.null_count and (array.null_count == len(array) or pa.types.is_boolean(kind)):
        array = array.cast(pa.float64())  # nan, in a column whose rows may lack a value
    elif not (pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)) and len(array):
        raise _wrong(array, "numbers or bools")
    if pa.types.is_uint64(kind) and len(array):
        largest = arrow("compute").max(array).as_py()
        if largest is not None and largest >= 2**63:
            raise InvalidInputError(f"holds {largest}; the largest integer allowed is 2**63 - 1; convert it to floats")
    return array.to_numpy(zero_copy_only=False).reshape(shape)


#: What keys may be, for errors.
_KEYS = "integers, strings, bools, dates or times"


def _integers(array: Any) -> Any:
    """Convert floats to integers, as pandas stores integers with nulls; an error if one is not whole."""
    pa, pc = arrow(), arrow("compute")
    values = array.cast(pa.float64()).drop_null()  # of half floats, pyarrow has few functions
    if len(values) and pc.max(pc.abs(values)).as_py() >= 2**53:
        raise InvalidInputError(f"holds floats of 2**53 or more, which skip integers; convert {array.type} to integers")
    odd = pc.not_equal(values, pc.floor(values))
    if pc.any(odd).as_py():
        error = _wrong(array, _KEYS, values.filter(odd)[0].as_py())
        raise InvalidInputError(f"{error}; round them, cut them into ranges, or make them strings: {called('text')}")
    return array.cast(pa.float64()).cast(pa.int64())


def _whole(array: Any) -> Any:
    """Convert decimals to integers; an error if one is not whole, or has more than 64 bits."""
    pa, pc = arrow(), arrow("compute")
    wide = array.cast(pa.decimal256(76, array.type.scale))  # pyarrow has few functions of narrow ones
    values = wide.drop_null()
    odd = pc.not_equal(values, pc.floor(values))
    if pc.any(odd).as_py():
        error = _wrong(array, _KEYS, values.filter(odd)[0].as_py())
        raise InvalidInputError(f"{error}; make them strings: {called('text')}")
    for kind in (pa.int64(), pa.uint64()):
        with contextlib.suppress(pa.ArrowInvalid):
            return wide.cast(kind)
    largest = pc.max(pc.abs(values)).as_py()
    raise InvalidInputError(f"holds integers of more than 64 bits, {largest}; make them strings: {called('text')}")


def _whole_keys(array: Any) -> np.ndarray:
    """Integers as keys, with `NULL` for nulls."""
    pa, pc = arrow(), arrow("compute")
    if len(array) and pa.types.is_int64(array.type) and pc.min(array).as_py() == NULL["i"]:
        raise InvalidInputError(f"holds {NULL['i']}, which stands for rows without a key; use a null for these")
    if array.null_count:
        largest = pc.max(array).as_py()
        if largest is not None and largest >= 2**63:
            how = f"fill them, or make the keys strings: {called('text')}"
            raise InvalidInputError(f"holds nulls and {largest}, an integer of 2**63 or more; {how}")
        array = array.cast(pa.int64()).fill_null(NULL["i"])
    return array.to_numpy()


def _keys(array: Any) -> Any:
    """Integers, or strings as places in a dictionary; dates, times and bools become strings, and nulls `NULL`."""
    types = arrow().types
    if len(array) and array.null_count == len(array):
        return np.full(len(array), NULL["i"])  # of whichever kind other rows are
    kind = array.type.value_type if types.is_dictionary(array.type) else array.type
    for is_of, make in (
        (types.is_floating, _integers),
        (types.is_decimal, _whole),
        (types.is_integer, lambda same: same),
    ):
        if is_of(kind):
            return _whole_keys(make(array.dictionary_decode() if kind is not array.type else array))
    if not len(array):
        return np.empty(0, np.int64)
    known = [types.is_boolean, types.is_date, types.is_timestamp, types.is_time, types.is_string, types.is_binary]
    known += [types.is_large_string, types.is_large_binary, types.is_fixed_size_binary]
    if not any(is_kind(kind) for is_kind in known) and str(kind) not in (
        "string_view",
        "binary_view",
    ):  # of a dictionary
        nested = item_in(kind, "x") != ""
        raise InvalidInputError(f"{_wrong(array, _KEYS)}{'' if nested else '; convert it to one of these'}")
    if not types.is_dictionary(array.type):
        array = array.dictionary_encode()
    indices, values = array.indices, array.dictionary
    if indices.null_count or values.null_count:
        values, indices = _with_null(values, indices)
    return Coded(indices.to_numpy(), keys_of([NULL["U"] if text is None else text for text in _texts(values)], "it"))


def _arrow_keys(array: Any) -> Any:
    """Keys of rows that all have one, in Arrow: integers of 64 bits or strings, the same as of `_keys`."""
    pa, types = arrow(), arrow().types
    plain = array.dictionary_decode() if types.is_dictionary(array.type) else array
    if types.is_string(plain.type) or types.is_large_string(plain.type):
        with contextlib.suppress(pa.ArrowInvalid):  # of strings that are not UTF-8, which `_keys` names
            plain.validate(full=True)
            return plain.cast(pa.string())
    keys = _keys(array)
    if isinstance(keys, Coded):
        return pa.array(keys.values.tolist(), pa.string()).take(pa.array(keys.codes))
    return pa.array(keys if keys.dtype == np.uint64 else keys.astype(np.int64, copy=False))


def _texts(values: Any) -> list[str | None]:
    """Keys as strings; times with a fraction only if there is one."""
    pa, types, kind = arrow(), arrow().types, values.type
    if types.is_timestamp(kind):
        texts = np.datetime_as_string(values.to_numpy(zero_copy_only=False)).tolist()
        zone = "Z" if kind.tz else ""
        texts = [_without_zeros(text) + zone for text in texts]
        return [text if known else None for text, known in zip(texts, values.is_valid().to_pylist())]
    if types.is_fixed_size_binary(kind):
        values = values.cast(pa.binary())
    try:
        texts = values.cast(pa.large_string()).to_pylist()
    except (pa.ArrowInvalid, UnicodeDecodeError):  # the latter of a column declared as strings
        raise _wrong(values, "integers, or strings in UTF-8", _no_text(values)) from None
    return [text and _without_zeros(text) for text in texts] if types.is_time(kind) else texts


def _without_zeros(text: str) -> str:
    """A time without the zeros at the end of its fraction."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def _no_text(values: Any) -> bytes:
    """The first of these strings, or of their bytes, that is not UTF-8."""
    known = (value.as_buffer().to_pybytes() for value in values if value.is_valid)
    return next(text for text in known if text.decode("utf-8", "ignore").encode() != text)


def _with_null(values: Any, indices: Any) -> tuple[Any, Any]:
    """A dictionary with one null among its values, and the places in it, of which none is null."""
    pa = arrow()
    if indices.null_count:
        values = pa.concat_arrays([values, pa.nulls(1, values.type)])
        indices = indices.cast(pa.int64()).fill_null(len(values) - 1)
    return values, indices


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
