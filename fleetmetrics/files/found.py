"""Which files are meant by names, folders and patterns; and what is there, and cannot be read."""

from __future__ import annotations

import glob
import os
from typing import Any, Iterator, NamedTuple

from fleetmetrics.arguments import listed, path_of
from fleetmetrics.errors import DataError
from fleetmetrics.files.places import is_remote, remote_files

__all__ = ["Found", "find", "look"]


class Found(NamedTuple):
    """What is meant.

    Args:
        paths: the files, sorted.
        bad: what cannot be read, each with its reason: folders, and links that lead nowhere.
    """

    paths: list[str]
    bad: list[str]


def find(files: Any) -> list[str]:
    """The files that are meant, sorted.

    Args:
        files: a file, a folder, a pattern such as ``"preds/*.parquet"`` (``**`` for folders of any depth), or several.
            A folder, also one that a pattern matches, stands for all files in it and below, but for those whose names,
            or folders', begin with ``_`` or ``.``. URLs, such as ``"s3://bucket/preds/*.parquet"``, are opened by
            pyarrow or fsspec. ``"-"`` is the standard input.

    Raises:
        DataError: nothing is there, a folder or link cannot be read, or a file would come twice.
    """
    paths, bad = look(files)
    if bad:
        more = f" ({len(bad)} folders or links cannot be read)" if len(bad) > 1 else ""
        raise DataError(f"{bad[0]}{more}")
    return paths


def look(files: Any) -> Found:
    """What `find` finds, and what it would raise for.

    Args:
        files: as for `find`.

    Raises:
        DataError: nothing is there that can be read, or a file would come twice.
    """
    found: dict[str, str] = {}
    wrong: list[str] = []
    entries = [files] if isinstance(files, (str, os.PathLike)) else listed("files", files, "paths")
    for entry in [path_of("files", each) for each in entries]:
        matched, bad = Found([entry], [])
        if is_remote(entry):
            matched = remote_files(entry)
        elif os.path.isdir(entry):
            matched, bad = _inside(entry)
        elif entry != "-" and not os.path.isfile(entry):
            matched, bad = _matching(entry)
        if not matched and not bad:
            raise DataError(f"{entry!r} is no file, no folder with files, and no pattern that one matches")
        for path in matched:
            if path in found:
                raise DataError(f"{path} would count twice, by {found[path]!r} and {entry!r}; name it once")
            found[path] = entry
        wrong += bad
    if not found:
        raise DataError(wrong[0] if wrong else "files is empty; name at least one file, folder or pattern")
    return Found(sorted(found), sorted(set(wrong)))


def _inside(top: str) -> Found:
    """The files in a folder and below, each once, whatever links lead to it."""
    paths: list[str] = []
    bad: list[str] = []
    folders = [top]
    links: list[str] = []
    seen: set[str] = set()
    while folders or links:
        if not folders:  # last, so that a file is called by its own name where it has one
            link = links.pop()
            if os.path.isdir(link):
                folders.append(link)
            elif not os.path.isfile(link):
                bad.append(f"{link}: a link that leads to no file")
            elif os.path.realpath(link) not in seen:
                seen.add(os.path.realpath(link))
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
                seen.add(os.path.realpath(path))
                paths.append(path)
            else:
                bad.append(f"{path}: it is no file, and no folder")
    return Found(paths, bad)


def _entries(folder: str, bad: list[str]) -> list[os.DirEntry[str]]:
    """What is in a folder; if it cannot be listed, that is added to what is bad."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        bad.append(f"{folder}: this folder cannot be listed: {error.strerror or error}")
        return []


def _matching(pattern: str) -> Found:
    """The files that a pattern matches; `glob` leaves out what it may not look at, so that is looked at here."""
    found = list(glob.iglob(pattern, recursive=True))
    bad = [f"{path}: a link that leads to no file" for path in found if not os.path.exists(path)]
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
    paths = list(filter(os.path.isfile, found))
    seen = set(map(os.path.realpath, paths))
    for folder in filter(os.path.isdir, found):
        if os.path.basename(folder.rstrip(os.sep))[:1] not in ("_", "."):
            inside = _inside(folder)
            paths += [path for path in inside.paths if os.path.realpath(path) not in seen]
            seen.update(map(os.path.realpath, inside.paths))
            bad += inside.bad
    return Found(paths, bad)


def _refused(path: str) -> Iterator[str]:
    """What to say of a path that may not be looked at."""
    try:
        os.lstat(path)
    except PermissionError as error:
        yield f"{path}: {error.strerror}"
    except OSError:  # it is not there, which a pattern may say
        return
