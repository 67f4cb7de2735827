"""Records on their way through a directory instead of through memory."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Iterable, Iterator

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.records.pieces import Piece

__all__ = ["Spool"]


class Spool:
    """A folder of its own in the directory that was given: nothing else in there is touched.

    Args:
        directory: made if need be.
        token: sets one exchange apart from all others.
        rank: of this worker.
        shared: whether all workers see the same directory; if not, each uses its own as a buffer.
    """

    def __init__(self, directory: str, token: str, rank: int, shared: bool) -> None:
        self._shared = shared
        self._rank = rank
        self._folder = Path(directory) / f"fleetmetrics-{token}"
        self._files: list[Path] = []

    def make(self) -> None:
        """Make the folder: on rank 0 before the others look for it, else on every worker.

        Raises:
            OSError: if it cannot be made.
        """
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        self._folder.mkdir(exist_ok=True)

    def check(self) -> None:
        """Raise unless the folder that rank 0 has made can be seen here.

        Raises:
            InvalidInputError: if it cannot.
        """
        if not self._shared:
            self.make()
        elif not self._folder.is_dir():
            raise InvalidInputError(
                f"collect_dir {str(self._folder.parent)!r} is not the directory that rank 0 sees under that name: it"
                " must lie on a file system that all workers share. If they share none, give collect_dir_shared=False,"
                " or no collect_dir"
            )

    def write(self, number: int, pieces: Iterable[Piece]) -> list[tuple[Any, int]]:
        """Write a share's pieces into a file.

        Args:
            number: of the share.
            pieces: what is written.

        Returns:
            Layout and size of every piece in it.

        Raises:
            OSError: if the disk is full, or the directory cannot be written.
        """
        path = self._folder / f"{number}-{self._rank}"
        self._files.append(path)
        labels = []
        with path.open("wb") as file:
            for piece in pieces:
                for buffer in piece.buffers:
                    file.write(buffer)
                labels.append((piece.layout, piece.nbytes))
        return labels

    def read(self, number: int, rank: int) -> Any:
        """Return a worker's file as a buffer: changes to it stay in memory.

        Args:
            number: of the share.
            rank: of the worker.
        """
        self._files.append(self._folder / f"{number}-{rank}")  # whoever reads it removes it
        return self._mapped(number, rank)

    def through(self, number: int, pieces: Iterable[Piece]) -> Iterator[Piece]:
        """Write a share's pieces into a file, and return them from there.

        Args:
            number: of the share.
            pieces: what is written.
        """
        labels = self.write(number, pieces)
        data, start = self._mapped(number, self._rank), 0
        for layout, size in labels:
            yield Piece(layout, [data[start : start + size]], size)
            start += size

    def _mapped(self, number: int, rank: int) -> Any:
        path = self._folder / f"{number}-{rank}"
        return np.memmap(path, np.uint8, "c").data if path.stat().st_size else b""

    def clean(self) -> None:
        """Remove what this worker wrote; and the folder, if it is empty then."""
        for path in self._files:
            with contextlib.suppress(OSError):
                path.unlink()
        with contextlib.suppress(OSError):
            self._folder.rmdir()
