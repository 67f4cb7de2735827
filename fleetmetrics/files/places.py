"""The places of files: on this machine, or where pyarrow or fsspec reaches: ``s3://``, ``gs://``, ``hdfs://``, ..."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import re
import urllib.parse
from typing import Any, NamedTuple

from fleetmetrics.columns.arrow_values import arrow
from fleetmetrics.errors import DataError, MissingLibraryError

__all__ = ["end_of", "is_remote", "local_path", "opened", "remote_files", "stamp_of", "whole_path"]

_URL = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]+)://(?P<host>[^/?]*)(?P<path>[^?]*)(?P<query>\?.*)?")
#: What only tables have: the log of Delta Lake and Hudi, and Iceberg's metadata.
_LOG = re.compile(r"/(_delta_log|\.hoodie|metadata/[^/]+\.metadata\.json(\.gz)?)(?=/|$)")
_LOCAL = re.compile(r"(?:file|local)://(?:localhost(?=/))?(?P<path>.+)", re.IGNORECASE | re.DOTALL)


class _Place(NamedTuple):
    """A file or folder in a filesystem."""

    system: Any
    path: str
    root: str  #: the URL of what the path begins with
    top: str  #: and its path


def is_remote(path: str) -> bool:
    """Whether this is a URL, not a path."""
    return _URL.fullmatch(path) is not None


def local_path(path: str) -> str:
    """The path of a URL of this machine, such as ``file:///data``; any other path or URL unchanged.

    ``%20`` is a blank, as in `pathlib.Path.as_uri`, unless only a file with the literal name exists.
    """
    match = _LOCAL.fullmatch(path)
    if not match:
        return path
    meant = urllib.parse.unquote(match["path"])
    return match["path"] if os.path.lexists(match["path"]) and not os.path.lexists(meant) else meant


def opened(path: str) -> Any:
    """A file, opened for reading, from any place."""
    if not is_remote(path):
        return open(path, "rb")
    place = _place(path)
    return place.system.open_input_file(place.path)


def end_of(file: Any) -> int:
    """The size of an open file, whose position is then its end."""
    file.seek(0, os.SEEK_END)
    return int(file.tell())


def whole_path(path: str) -> str:
    """An absolute path, or a URL."""
    return path if is_remote(path) else os.path.abspath(path)


def stamp_of(path: str) -> tuple[Any, ...]:
    """A stamp that changes when a file does."""
    with contextlib.suppress(OSError):  # reading meets it, too
        if is_remote(path):
            place = _place(path)
            info = place.system.get_file_info(place.path)
            return info.mtime_ns, info.size
        stat = os.stat(path)
        return stat.st_mtime_ns, stat.st_size, stat.st_ino
    return ()


def remote_files(url: str) -> tuple[list[str], list[str]]:
    """The files behind a URL of a file, a folder or a pattern, as in `fleetmetrics.files.find`.

    Entries that are neither files nor folders are returned separately, each with the reason.

    Raises:
        DataError: the place cannot be reached.
    """
    fs = arrow("fs")
    parts = _URL.fullmatch(url)
    assert parts
    fixed, pattern = parts["path"], ""
    if re.search(r"[*\[]", fixed):
        fixed, pattern = re.split(r"(?<=/)(?=[^/]*[*\[])", parts["path"], maxsplit=1)
    query = parts["query"] or ""
    try:
        place = _place(f"{parts['scheme']}://{parts['host']}{fixed}{query}")
        info = place.system.get_file_info(place.path or "/")
        if info.type == fs.FileType.NotFound:
            return [], []
        _check_no_table(url, place)
        if info.type == fs.FileType.File and not pattern:
            return [url], []
        entries = place.system.get_file_info(fs.FileSelector(place.path, recursive=True))
    except OSError as error:
        raise DataError(f"{url}: it cannot be reached: {error}") from None
    logs = [_LOG.search(entry.path[len(place.path) :]) for entry in entries]
    for log in filter(None, logs):
        raise _in_table(url, log[0])
    paths, bad = [], []
    for entry in entries:
        inside = entry.path[len(place.path) :].strip("/")
        hidden = any(part[:1] in "._" for part in inside.split("/"))
        if entry.type == fs.FileType.Directory or not (_matches(inside, pattern) if pattern else not hidden):
            continue
        path = f"{place.root}{entry.path[len(place.top) :].lstrip('/')}{query}"
        if entry.type == fs.FileType.File:
            paths.append(path)
        else:
            bad.append(f"{path}: {'a broken link' if entry.type == fs.FileType.NotFound else 'not a file or folder'}")
    return paths, bad


def _check_no_table(url: str, place: _Place) -> None:
    """Raise DataError for a URL in a table, only whose log says which files count."""
    folders, folder = [], place.path.rstrip("/")
    while folder.strip("/"):
        folders.append(folder)
        folder = folder.rpartition("/")[0]
    logs = [
        f"{folder}{log}" for folder in folders for log in ("/_delta_log", "/.hoodie", "/metadata/version-hint.text")
    ]
    for info in place.system.get_file_info(logs):
        if info.type in (arrow("fs").FileType.File, arrow("fs").FileType.Directory):
            raise _in_table(url, info.path)


def _in_table(url: str, log: str) -> DataError:
    kinds = {"_delta_log": "Delta Lake", ".hoodie": "Hudi"}
    kind = next((kind for name, kind in kinds.items() if name in log), "Iceberg")
    return DataError(
        f"{url} is in a table of {kind}, only whose log says which files count, and such tables are read on this "
        "machine alone: mount it, or export the rows to count to Parquet"
    )


def _matches(path: str, pattern: str) -> bool:
    """Whether a pattern matches a path, or a folder above it."""
    parts = {"**/": r"(?:[^/.][^/]*/)*", "**": ".*", "*": r"[^/]*"}
    spelled = re.split(r"(\*\*/|\*\*|\*|\[[^]]+\])", pattern)
    expression = "".join(parts.get(token, token if token.startswith("[") else re.escape(token)) for token in spelled)
    return re.fullmatch(f"(?!\\.){expression}(?:/.*)?", path) is not None


def _place(url: str) -> _Place:
    parts = _URL.fullmatch(url)
    assert parts
    root = f"{parts['scheme']}://{parts['host']}/"
    system, top = _system(root, parts["query"] or "")
    return _Place(system, f"{top.rstrip('/')}/{parts['path'].lstrip('/')}".rstrip("/") or "/", root, top.rstrip("/"))


@functools.lru_cache(maxsize=None)
def _system(root: str, query: str) -> tuple[Any, str]:
    """The file system of a root, and the prefix of its paths; DataError if no library opens it."""
    fs, pa, scheme = arrow("fs"), arrow(), root.partition("://")[0]
    host = root[len(scheme) + 3 : -1]
    try:
        system, top = fs.FileSystem.from_uri(f"{scheme}://{host}{'' if host else '/'}{query}")
        return system, top
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, ImportError) as error:
        own = str(error).splitlines()[0]
    try:
        fsspec = importlib.import_module("fsspec")
    except ImportError:
        raise MissingLibraryError(
            f"{root}: pyarrow does not open it ({own}), and fsspec is not installed; install it with pip install "
            "fsspec, or copy or mount the files"
        ) from None
    try:
        inner, top = fsspec.core.url_to_fs(root)
    except ValueError:
        raise DataError(
            f"{root}: no library opens {scheme}://; pyarrow opens s3, gs, hdfs and file, fsspec "
            f"{', '.join(sorted(fsspec.available_protocols())[:40])}"
        ) from None
    except ImportError as error:
        raise MissingLibraryError(f"{root}: {error}") from None
    return fs.PyFileSystem(fs.FSSpecHandler(inner)), top
