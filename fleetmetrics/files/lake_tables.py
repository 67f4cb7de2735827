"""Folders that are tables of Delta Lake, Iceberg, Hudi or Paimon: only their log says which files count.

A table keeps the files of earlier versions beside those of the current one. Its own library names the current files,
and reads them: it knows renamed columns, the values of partitions, and rows that are deleted without a new file.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import importlib
import json
import os
import re
from typing import Any, Iterable, Iterator, NamedTuple, Sequence
from urllib.parse import unquote

from fleetmetrics.columns.partitions import FilePath
from fleetmetrics.errors import DataError, MissingLibraryError
from fleetmetrics.files.places import local_path

__all__ = ["Table", "TableFile", "Tables"]

#: The packages that read tables, by format.
_LIBRARIES = {"Delta Lake": "deltalake", "Iceberg": "pyiceberg"}
_METADATA = re.compile(r"v?(\d+)\b.*\.metadata\.json(?:\.gz)?")
_EXPORT = "export the rows to count to Parquet"


class Table(NamedTuple):
    """A version of a table."""

    format: str
    folder: str
    version: str  #: the number of Delta Lake's, or the path of Iceberg's metadata

    def in_words(self) -> str:
        """Its format and version, for a result."""
        number = _METADATA.fullmatch(os.path.basename(self.version))
        return f"{self.format}, version {int(number[1]) if number else self.version}"

    def __str__(self) -> str:
        format, _, version = self.in_words().rpartition(", ")
        return f"the table of {format} {self.folder}, {version}"


class TableFile(FilePath):
    """The path of a current file of a table."""

    table: Table

    @property
    def identity(self) -> str:  # noqa: D102
        return f"{self} of {self.table}"

    def batches(self, choose: Any) -> Iterator[Any]:
        """Its rows as Arrow batches, read by the table's library.

        Args:
            choose: makes the columns to read from the columns of the table.
        """
        return _contents(self.table).batches(str(self), choose)


class Tables:
    """The tables that contain some files or folders, each looked at once."""

    def __init__(self) -> None:
        self._formats: dict[str, str] = {}
        self._tables: dict[str, str] = {}
        self._files: dict[str, list[TableFile]] = {}

    def current(self, entry: str, paths: Sequence[str]) -> list[str]:
        """The files of these that count; those in no table all do.

        Args:
            entry: the file, folder or pattern that the user has given.
            paths: the files that it stands for.

        Raises:
            DataError: a table cannot be read, or none of its files among these counts.
            MissingLibraryError: its library is not installed.
        """
        if _METADATA.fullmatch(os.path.basename(entry)) and os.path.isfile(entry):
            folder = os.path.dirname(os.path.dirname(os.path.abspath(entry)))
            if self._format(folder) == "Iceberg":
                return list(_files(Table("Iceberg", folder, os.path.abspath(entry))))
        current_files: list[str] = []
        chosen: dict[str, list[str]] = {}
        if os.path.isdir(entry) and self._format(os.path.realpath(entry)):
            chosen[os.path.realpath(entry)] = []  # all of its files may be elsewhere
        for path in paths:
            folder = self._table_of(path)
            if folder:
                chosen.setdefault(folder, []).append(path)
            else:
                current_files.append(path)
        matches: list[str] = []
        if chosen:
            matches = [entry] if os.path.isdir(entry) else glob.glob(entry, recursive=True)
        whole = [os.path.join(os.path.realpath(match), "") for match in matches if os.path.isdir(match)]
        for folder, some in chosen.items():
            try:
                files = self.files(folder)
            except (DataError, MissingLibraryError):
                with contextlib.suppress(OSError, ValueError):
                    if entry in some and _is_added(folder, entry):
                        current_files.append(entry)
                        continue
                raise
            if not os.path.join(folder, "").startswith(tuple(whole)):
                files = _among(files, some)
            current_files += files
        return current_files

    def files(self, folder: str) -> list[TableFile]:
        """The current files of a table."""
        if folder not in self._files:
            kind = self._format(folder)
            version = _newest(folder) if kind == "Iceberg" else ""
            self._files[folder] = _files(Table(kind, folder, version))
        return self._files[folder]

    def _table_of(self, path: str) -> str:
        """The innermost table that a file is in; empty: none."""
        if os.path.islink(path):
            return self._around(os.path.dirname(os.path.realpath(path)))
        folder = os.path.dirname(path)
        if folder not in self._tables:
            self._tables[folder] = self._around(os.path.realpath(folder))
        return self._tables[folder]

    def _around(self, folder: str) -> str:
        """The innermost table that a folder is, or is in; empty: none."""
        while not self._format(folder):
            folder, inner = os.path.dirname(folder), folder
            if folder == inner:
                return ""
        return folder

    def _format(self, folder: str) -> str:
        if folder not in self._formats:
            self._formats[folder] = _format_of(folder)
        return self._formats[folder]


def _among(files: Sequence[TableFile], paths: Sequence[str]) -> list[TableFile]:
    """The current files of a table among paths; DataError if no path is."""
    chosen = set(map(os.path.realpath, paths))
    chosen_files = [file for file in files if os.path.realpath(file) in chosen]
    if not chosen_files:
        raise DataError(
            f"{min(paths)} is not one of the current files of {files[0].table}: a later version has removed it, or it "
            "holds no data; give the folder of the table"
        )
    return chosen_files


def _is_added(folder: str, path: str) -> bool:
    """Whether the whole log of a table of Delta Lake says that a file counts as it is; the library is not needed."""
    logs = sorted(glob.glob(os.path.join(glob.escape(folder), "_delta_log", "*.json")))
    if [os.path.basename(log) for log in logs] != [f"{number:020}.json" for number in range(len(logs))]:
        return False  # its first part is in a checkpoint
    is_added = False
    for log in logs:
        with open(log, encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                mode = row.get("metaData", {}).get("configuration", {}).get("delta.columnMapping.mode", "none")
                file = row.get("add") or row.get("remove")
                if mode != "none":
                    return False  # names in the file are not those of the table
                if file and os.path.realpath(os.path.join(folder, unquote(file["path"]))) == os.path.realpath(path):
                    is_added = "add" in row and not row["add"].get("deletionVector")
    return is_added


def _format_of(folder: str) -> str:
    """The format of the table that a folder is; empty: it is none."""

    def has(*names: str) -> bool:
        return all(os.path.exists(os.path.join(folder, name)) for name in names)

    if has("_delta_log"):
        return "Delta Lake"
    if has(".hoodie"):
        return "Hudi"
    if has("metadata") and _metadata_name(_names(os.path.join(folder, "metadata"))):
        return "Iceberg"
    return "Paimon" if has("snapshot", "manifest", os.path.join("schema", "schema-0")) else ""


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _metadata_name(names: Iterable[str]) -> str:
    """The newest of Iceberg's files of metadata among names; empty: no such file.

    Raises:
        DataError: two files have the highest number.
    """
    version_by_name = {
        name: int(match[1]) for name, match in ((name, _METADATA.fullmatch(name)) for name in names) if match
    }
    newest = sorted(name for name, number in version_by_name.items() if number == max(version_by_name.values()))
    if len(newest) > 1:
        raise DataError(
            f"{' and '.join(newest[:2])} are both the newest metadata of a table of Iceberg; give the path of the one "
            "that its catalog names"
        )
    return newest[0] if newest else ""


def _newest(folder: str) -> str:
    """The path of an Iceberg table's current metadata."""
    place = os.path.join(folder, "metadata")
    return os.path.join(place, _metadata_name(_names(place)))


def _files(table: Table) -> list[TableFile]:
    """The current files of a table, of its newest version unless it has one."""
    contents = _opened(table)
    files = []
    for path in contents.paths():
        file = TableFile(path)
        file.table, file.top = contents.table, table.folder
        files.append(file)
    if not files:
        raise DataError(f"{contents.table}: it has no rows")
    return sorted(files)


@functools.lru_cache(maxsize=4)
def _contents(table: Table) -> Any:
    """The contents of a table in a process that reads its files."""
    return _opened(table)


def _opened(table: Table) -> Any:
    """A table, opened by its library; DataError if that cannot read it, MissingLibraryError without it."""
    what = f"{table.folder} is a table of {table.format}, only whose log says which files count"
    if table.format not in _LIBRARIES:
        raise DataError(f"{what}, and it cannot be read here; {_EXPORT}")
    package = _LIBRARIES[table.format]
    try:
        importlib.import_module(package)
    except ImportError as error:
        raise MissingLibraryError(
            f"{what}: {package}, which reads it, cannot be imported ({error}); install it with pip install {package}, "
            f"or {_EXPORT}"
        ) from None
    try:
        return _Delta(table) if table.format == "Delta Lake" else _Iceberg(table)
    except DataError:
        raise
    except Exception as error:  # each library has its own errors
        raise _unreadable(table, error) from None


def _unreadable(table: Table, error: Exception) -> DataError:
    reason = " ".join(str(error).split()) or type(error).__name__
    package = _LIBRARIES[table.format]
    return DataError(f"{table.folder}: {package} cannot read this table of {table.format}: {reason}; {_EXPORT}")


class _Delta:
    """A table of Delta Lake; its library refuses features that it does not know, such as deletion vectors."""

    def __init__(self, table: Table) -> None:
        version = int(table.version) if table.version else None
        opened = importlib.import_module("deltalake").DeltaTable(table.folder, version=version)
        self.table = table._replace(version=str(opened.version()))
        data = opened.to_pyarrow_dataset()
        self._schema = data.schema
        self._fragments = {_under(table.folder, fragment.path): fragment for fragment in data.get_fragments()}

    def paths(self) -> Iterable[str]:
        return self._fragments

    def batches(self, path: str, choose: Any) -> Iterator[Any]:
        names = choose(self._schema.names)
        yield from self._fragments[path].to_batches(schema=self._schema, columns=names, batch_readahead=2)


class _Iceberg:
    """A table of Iceberg; its library leaves out rows that files of deletes name."""

    def __init__(self, table: Table) -> None:
        self._data = importlib.import_module("pyiceberg.table").StaticTable.from_metadata(table.version)
        self.table = table
        there = local_path(self._data.metadata.location)
        if os.path.realpath(there) != os.path.realpath(table.folder):
            raise DataError(
                f"{table.folder} is a copy of the table of Iceberg {there}, and its metadata name the files there; "
                f"give that folder, or {_EXPORT}"
            )
        self._tasks = {_under(table.folder, file.file.file_path): file for file in self._data.scan().plan_files()}

    def paths(self) -> Iterable[str]:
        return self._tasks

    def batches(self, path: str, choose: Any) -> Iterator[Any]:
        names = tuple(choose([field.name for field in self._data.schema().fields]))
        always = importlib.import_module("pyiceberg.expressions").AlwaysTrue()
        scan = importlib.import_module("pyiceberg.io.pyarrow").ArrowScan
        wanted = self._data.scan(selected_fields=names).projection()
        yield from scan(self._data.metadata, self._data.io, wanted, always).to_record_batches([self._tasks[path]])


def _under(folder: str, path: str) -> str:
    """The path of a table's file, which may be relative to the table."""
    return os.path.join(folder, local_path(path))
