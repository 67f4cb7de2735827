"""Find the files behind names, folders and patterns, and the unreadable ones."""

from __future__ import annotations

import contextlib
import glob
import os
import stat
from typing import Any, Hashable, Iterator, NamedTuple

from fleetmetrics.columns.partitions import FilePath, with_types
from fleetmetrics.errors import DataError
from fleetmetrics.files.lake_tables import Tables
from fleetmetrics.files.places import is_remote, local_path, remote_files
from fleetmetrics.support.checks import listed, path_of
from fleetmetrics.support.hints import did_you_mean, near

__all__ = ["Found", "find", "look", "one"]


class Found(NamedTuple):
    """The files found.

    Args:
        paths: the files, sorted.
        bad: unreadable folders and broken links, each with the reason.
    """

    paths: list[str]
    bad: list[str]


def find(files: Any) -> list[str]:
    """Return the matching files, sorted.

    Args:
        files: a file, a folder, a pattern such as ``"preds/*.parquet"`` (``**`` for folders of any depth), or several.
            A folder, also one that a pattern matches, stands for all files in it and below, except for those whose
            names, or folders', begin with ``_`` or ``.``. Of a table of Delta Lake or Iceberg only the current files
            count, also of its folders, files and patterns in it. URLs, such as ``"s3://bucket/preds/*.parquet"``, are
            opened by pyarrow or fsspec. ``"-"`` is the standard input.

    Raises:
        DataError: nothing matches, a folder or link cannot be read, a file would count twice, or a table cannot be
            read.
        MissingLibraryError: the library of a table is not installed.
    """
    paths, bad = look(files)
    if bad:
        more = f" ({len(bad)} folders or links cannot be read)" if len(bad) > 1 else ""
        raise DataError(f"{bad[0]}{more}")
    return paths


def look(files: Any) -> Found:
    """The files that `find` returns, and the entries for which it raises.

    Args:
        files: as for `find`.

    Raises:
        DataError: nothing readable matches, or a file would count twice.
    """
    entry_by_identity: dict[Hashable, tuple[str, str]] = {}
    wrong: list[str] = []
    tables = Tables()
    entries = [files] if isinstance(files, (str, os.PathLike)) else listed("files", files, "paths")
    for pattern in [path_of("files", entry) for entry in entries]:
        entry = local_path(pattern)
        matched, bad = _of_entry(entry, tables)
        if not matched and not bad:
            what = "is not a file, a folder with files, or a pattern that matches one"
            raise DataError(f"{pattern!r} {what}{did_you_mean(_neighbors_like(entry))}")
        for path in matched:
            identity = _identity(path)
            if identity in entry_by_identity:
                raise DataError(
                    f"{path} would count twice, for {entry_by_identity[identity][1]!r} and {pattern!r}; name it once"
                )
            entry_by_identity[identity] = path, pattern
        wrong += bad
    if not entry_by_identity:
        raise DataError(wrong[0] if wrong else "files is empty; name at least one file, folder or pattern")
    return Found([*with_types(sorted(path for path, _ in entry_by_identity.values()))], sorted(set(wrong)))


def one(path: str) -> str:
    """A single file, as `find` would return it; one that is not there stays, for its reader to report it."""
    return look(path).paths[0] if os.path.isfile(path) and not isinstance(path, FilePath) else path


def _of_entry(entry: str, tables: Tables) -> Found:
    """The files of a file, folder or pattern; of a table only those that count."""
    if isinstance(entry, FilePath) or entry == "-":  # found before
        return Found([entry], [])
    if is_remote(entry):
        return Found(*remote_files(entry))
    matched = Found([entry], [])
    if os.path.isdir(entry):
        matched = _inside(entry)
    elif not os.path.isfile(entry):
        bad = list(_refused(entry))  # in a folder that may be listed and not entered, nothing is a file
        matched = Found([], bad) if bad else _matching(entry)
    return matched._replace(paths=tables.current(entry, matched.paths))


def _neighbors_like(entry: str) -> list[str]:
    """What the folder of a path that does not exist holds by a similar name."""
    folder, name = os.path.split(entry)
    with contextlib.suppress(OSError):
        return [os.path.join(folder, neighbor) for neighbor in near(name, sorted(os.listdir(folder or ".")))]
    return []


def _identity(path: str) -> Hashable:
    """An identity that all paths and links to a file share."""
    if is_remote(path) or path == "-":
        return path
    with contextlib.suppress(OSError):  # reading reports it
        status = os.stat(path)
        if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:  # for other files, some systems have no real number
            return status.st_dev, status.st_ino
    return os.path.realpath(path)


def _inside(top: str) -> Found:
    """The files in a folder and below, each once even if several links lead to it."""
    paths: list[str] = []
    bad: list[str] = []
    folders = [top]
    links: list[str] = []
    seen: set[Hashable] = set()
    while folders or links:
        if not folders:  # last, so that a file keeps its own name if it has one
            link = links.pop()
            if os.path.isdir(link):
                folders.append(link)
            elif not os.path.isfile(link):
                bad.append(f"{link}: a broken link")
            elif (identity := _identity(link)) not in seen:
                seen.add(identity)
                paths.append(link)
            continue
        folder = folders.pop()
        if os.path.realpath(folder) in seen:
            continue
        seen.add(os.path.realpath(folder))
        for entry in _entries(folder, bad):
            path = os.path.join(folder, entry.name)
            if entry.name[0] in "._":
                continue
            if entry.is_symlink():
                links.append(path)
            elif entry.is_dir():
                folders.append(path)
            elif entry.is_file():
                if (identity := _identity(path)) not in seen:
                    seen.add(identity)
                    paths.append(path)
            else:
                bad.append(f"{path}: not a file or folder")
    return Found(paths, bad)


def _entries(folder: str, bad: list[str]) -> list[os.DirEntry[str]]:
    """The entries of a folder; one that cannot be listed is added to the bad ones."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        bad.append(f"{folder}: this folder cannot be listed: {error.strerror or error}")
        return []


def _matching(pattern: str) -> Found:
    """The files that a pattern matches, and the entries that `glob` silently skips because it may not read them."""
    matches = list(glob.iglob(pattern, recursive=True))
    missing = [path for path in matches if not os.path.exists(path)]
    bad = [text for path in missing for text in list(_refused(path)) or [f"{path}: a broken link"]]
    parts = pattern.split(os.sep)
    for place, part in enumerate(parts):
        parent = os.sep.join(parts[:place]) or (os.sep if place else os.curdir)
        folders = glob.iglob(parent, recursive=True) if glob.has_magic(parent) else [parent]
        if part == "**":
            folders = glob.iglob(os.path.join(parent, "**", ""), recursive=True)
        if glob.has_magic(part):
            for folder in filter(os.path.isdir, folders):
                _entries(folder.rstrip(os.sep) or os.sep, bad)
        elif glob.has_magic(parent):
            bad += [text for folder in folders for text in _refused(os.path.join(folder, part))]
    files = sorted(filter(os.path.isfile, matches), key=lambda path: (os.path.islink(path), path), reverse=True)
    own = {_identity(path): path for path in files}  # of several names, keep its own, or the first
    paths, seen = list(own.values()), set(own)
    for folder in filter(os.path.isdir, matches):
        if os.path.basename(folder.rstrip(os.sep))[:1] not in ("_", "."):
            inside = _inside(folder)
            paths += [path for path in inside.paths if _identity(path) not in seen]
            seen.update(map(_identity, inside.paths))
            bad += inside.bad
    return Found(paths, bad)


def _refused(path: str) -> Iterator[str]:
    """The error for a path that may not be read."""
    try:
        os.lstat(path)
    except PermissionError as error:
        yield f"{path}: it cannot be read: {error.strerror}"
    except OSError:  # it is missing, which is fine for a pattern
        return
