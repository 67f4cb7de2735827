"""State dicts: what metrics hold as plain arrays, and the plan by which others like them take it back.

What accumulates is made of holders: states, tables, records; see `Holder`. All else is here, once.
"""

from __future__ import annotations

import abc
import json
import operator
import os
import re
from typing import Any, Callable, Mapping, NamedTuple, Protocol, Sequence

import numpy as np

from fleetmetrics._version import __version__
from fleetmetrics.arguments import flag_of
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.sampling import Part
from fleetmetrics.serial import MISFITS, described_array, misfits_named
from fleetmetrics.settings import Told, class_of, described, difference
from fleetmetrics.xp import to_host

__all__ = ["ABOUT", "Checkpointed", "HeldPass", "Holder", "PackedHolder", "Plan", "is_of_a_state"]

#: The version of what state dicts and files hold; another one is not read.
FORMAT = 1
#: The entry of a state dict that says what the others are: JSON as bytes.
ABOUT = "fleetmetrics"
#: `paddle.load` makes tensors of these, which come back as they were; arrays of other dtypes go as bytes.
_PLAIN = frozenset(["bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64"])
#: Entries that are dealt out where the number of workers changes.
_DEALT = re.compile(r"\d+:")


def is_of_a_state(key: str) -> bool:
    """Whether an entry is of a state, which one worker takes whole, and not of what is dealt out."""
    return _DEALT.match(key) is None


def _begins(key: str, start: str) -> bool:
    """Whether an entry is of the holder whose keys begin so; see `_key`."""
    return key.startswith(start) if start.endswith(":") else key == start or key.startswith(f"{start}:")


def _key(place: int, holder: Holder, name: str) -> str:
    return f"{place}:{name}" if holder.dealt else f"{place}.{holder.name.rpartition('.')[2]}{name}"


class Holder(Protocol):
    """What holds something that is saved and merged: a state, a table with its metrics, records, a pass."""

    @property
    def name(self) -> str:
        """What its keys in a state dict are made of."""

    @property
    def kind(self) -> Any:
        """What must be equal for one holder to take what another has saved."""

    @property
    def dealt(self) -> bool:
        """Whether another number of workers deals the parts out, instead of making one of them."""

    def saved(self, scope: Any = None) -> dict[str, np.ndarray]:
        """What it holds, as copied arrays by name; none if it holds nothing."""

    def together(self, parts: Sequence[Mapping[Any, Any]]) -> dict[str, Any]:
        """What several hold together, from what each and those beside it have `saved`, by holder."""

    def check(self, held: Any, scope: Any = None) -> None:
        """Raise InvalidInputError if it cannot `load` its own of this."""

    def load(self, held: Mapping[str, Any], scope: Any = None) -> None:
        """Hold what was `saved`; cannot fail after `check`."""


class Checkpointed(Told):
    """What can be saved and resumed."""

    def _holders(self) -> Sequence[Holder]:
        """What it is made of, in an order that its class and settings determine."""
        raise NotImplementedError

    def _called(self) -> str:
        return type(self).__name__

    def _parts(self) -> dict[str, tuple[Any, Sequence[Holder]]]:
        """What can be loaded without the rest, by name: its settings, and which holders it is made of."""
        return {"": (None, self._holders())}

    def _apart(self, name: str) -> tuple[Sequence[Holder], Callable[[], None]]:
        """Holders of its own for a part, in the place of those that it shares; and what gives them to it."""
        raise NotImplementedError

    def _about(self) -> Any:
        """What must be the same where it is loaded: the settings, and of each part settings, and holders by key."""
        keys = {holder: _key(place, holder, "") for place, holder in enumerate(self._holders())}
        parts = {
            name: [described(its, short=True), [[keys[each], described(each.kind, short=True)] for each in holders]]
            for name, (its, holders) in self._parts().items()
        }
        return json.loads(json.dumps({"settings": described(self, short=True), "parts": parts}))

    def state_dict(self, scope: Any = None) -> dict[str, np.ndarray]:
        """What was accumulated on this worker, for `set_state_dict`, `paddle.save` or `numpy.savez`.

        Args:
            scope: where a static program's variables live; None: the global scope.

        Returns:
            Arrays of numbers by name, copied. "fleetmetrics" says what the others are: JSON as bytes, with the class
            and its settings.

        Examples:
            >>> from fleetmetrics import Accuracy
            >>> metric, again = Accuracy(), Accuracy()
            >>> metric.add([0.9, 0.2, 0.7], [1, 0, 0])
            >>> again.set_state_dict(metric.state_dict())
            >>> again.compute()
            0.6666666666666666
        """
        found = {
            _key(place, holder, name): array
            for place, holder in enumerate(self._holders())
            for name, array in holder.saved(scope).items()
        }
        layout = {key: [array.dtype.str, list(array.shape)] for key, array in found.items()}
        about = json.dumps({"format": FORMAT, "written by": __version__, "of": self._about(), "arrays": layout})
        arrays = {ABOUT: _bytes(about.encode())}
        for key, array in found.items():
            plain = array.dtype.name in _PLAIN and array.dtype.isnative
            arrays[key] = array if plain else _bytes(array.tobytes())
        return arrays

    def set_state_dict(self, state: Mapping[str, Any], scope: Any = None, *, strict: bool = True) -> None:
        """Hold what another one of the same class and settings held, instead of what was accumulated here.

        Args:
            state: from `state_dict`; arrays, or tensors that `paddle.load` has made of them.
            scope: where a static program's variables live; None: the global scope.
            strict: False: a collection takes what it has in common with the one that was saved; its other metrics
                hold nothing.

        Raises:
            InvalidInputError: it is of another class, version, setting or shape, which the message says; then nothing
                has changed.
            StateNotFoundError: the scope does not hold the states: the startup program has not run.
        """
        plan = self._plan(state, flag_of("strict", strict))
        parts = [self._parsed(state, plan)]
        self._prepared(parts, parts, scope, plan)()

    def _said(self, state: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """What a state dict says that it is of, and of which dtype and shape its arrays are."""
        owner = self._called()
        if isinstance(state, (str, os.PathLike)):
            raise InvalidInputError(
                f"{owner}: state must be what state_dict returned, not the path {os.fspath(state)!r}; give what "
                "paddle.load or numpy.load makes of the file, or use fleetmetrics.load for one that fleetmetrics.save "
                "has written"
            )
        try:
            about = json.loads(np.asarray(to_host(state[ABOUT]), np.uint8).tobytes())
            version, of, layout = about["format"], about["of"], dict(about["arrays"])
        except MISFITS:
            raise InvalidInputError(
                f"{owner}: state must be what state_dict returned; it has no readable entry {ABOUT!r}"
            ) from None
        if version != FORMAT:
            raise InvalidInputError(
                f"{owner}: the checkpoint has format {version!r:.40} (fleetmetrics {about.get('written by')!r:.40}), "
                f"and fleetmetrics {__version__} reads format {FORMAT}"
            )
        return of, layout

    def _plan(self, state: Mapping[str, Any], strict: bool = True) -> Plan:
        """Which holder takes what of a state dict, and of all others that are like it."""
        of = self._said(state)[0]
        own, owner = self._about(), self._called()
        wrong = f"{owner}: the checkpoint is of another metric, or other settings"
        with misfits_named():
            settings = of["settings"]
            theirs = {name: (its, dict(held)) for name, (its, held) in of["parts"].items()}
            if not all(isinstance(start, str) for _, held in theirs.values() for start in held):
                raise TypeError("keys of arrays are texts")
        mine = self._parts()
        partial = not strict and len(mine) > 1 and class_of(settings) == class_of(own["settings"])
        differs = "" if partial else difference(own["settings"], settings, repr)
        for name in [name for name in mine if name in theirs]:
            its, held = own["parts"][name]
            differs = differs or difference(its, theirs[name][0], repr, "", name)
            if not differs and [kind for _, kind in held] != [*theirs[name][1].values()]:
                differs = f"the states of {name!r} are others" if name else "its states are others"
        if differs:
            raise InvalidInputError(f"{wrong}: {differs:.300}")
        plan = Plan(of, {}, list(mine), [])
        taken: dict[Holder, str | None] = {}
        for name, (_, holders) in mine.items():
            keys = list(theirs[name][1]) if name in theirs else [None] * len(holders)
            if any(taken.get(holder, key) != key for holder, key in zip(holders, keys)):
                holders, attach = self._apart(name)
                plan.attached.append(attach)
            taken.update(zip(holders, keys))
        plan.keys.update(taken)
        return plan

    def _parsed(self, state: Mapping[str, Any], plan: Plan, whole: bool = True) -> dict[Any, Any]:
        """What each holder has saved; unless ``whole``, without what is dealt out."""
        owner, (of, layout) = self._called(), self._said(state)
        differs = difference(plan.of, of)
        if differs:
            raise InvalidInputError(
                f"{owner}: a part is of another metric, or other settings, than the first: {differs:.300}"
            )
        starts = {start for _, held in of["parts"].values() for start, _ in held}
        keys_of = {start: [key for key in layout if _begins(key, start)] for start in starts}
        held: dict[Any, dict[str, np.ndarray]] = {}
        for holder, start in plan.keys.items():
            if start is None:
                held[holder] = {}
            elif whole or not holder.dealt:
                held[holder] = {key[len(start) :]: self._array(state, key, layout[key]) for key in keys_of[start]}
        strange = sorted({*map(str, state), *layout} - {ABOUT, *(key for keys in keys_of.values() for key in keys)})
        if strange:
            raise InvalidInputError(f"{owner}: the checkpoint has {', '.join(map(repr, strange[:5]))}, unknown here")
        return held

    def _array(self, state: Mapping[str, Any], key: str, entry: Any) -> np.ndarray:
        if key not in state:
            raise InvalidInputError(f"{self._called()}: the checkpoint lacks {key!r}")
        try:
            (dtype, _), array = described_array(*entry), np.array(to_host(state[key]))
            array = (array.view(dtype) if array.dtype == np.uint8 != dtype else array).reshape(entry[1])
            if array.dtype != dtype:
                raise TypeError(f"it was {dtype} and is {array.dtype}")
        except MISFITS as error:
            raise InvalidInputError(f"{self._called()}: {key!r} of the checkpoint is malformed: {error}") from None
        return array

    def _prepared(
        self, states: Sequence[Any], records: Sequence[Any], scope: Any, plan: Plan | None = None, same: bool = True
    ) -> Callable[[], None]:
        """What makes it hold parts, those for its states and those for its records; what can go wrong is raised before.

        No parts: it is reset. ``same``: the number of workers is that of the parts, and there is one.
        """
        holders, held = self._holders() if plan is None else list(plan.keys), {}
        for holder in holders:
            parts = records if holder.dealt else states
            held[holder] = parts[0][holder] if same and parts else holder.together(parts)
        for holder in holders:
            holder.check(held, scope)

        def apply() -> None:
            for attach in () if plan is None else plan.attached:
                attach()
            for holder in holders:
                holder.load(held[holder], scope)

        return apply


class PackedHolder(abc.ABC):
    """A holder of what is no state: it is read from its arrays once, and then handed on as it is.

    Args:
        owner: who has what is saved.
    """

    dealt = False
    name = kind = ""

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    @abc.abstractmethod
    def saved(self, scope: Any = None) -> dict[str, np.ndarray]:
        """What it holds, as arrays."""

    @abc.abstractmethod
    def read(self, arrays: Mapping[str, np.ndarray]) -> Any:
        """What `saved` has made arrays of; one of `fleetmetrics.serial.MISFITS` if they are no such arrays."""

    @abc.abstractmethod
    def joined(self, contents: Sequence[Any]) -> Any:
        """What several workers had, or none."""

    @abc.abstractmethod
    def hold(self, content: Any) -> None:
        """Hold what was read."""

    def together(self, parts: Sequence[Mapping[Any, Any]]) -> dict[str, Any]:
        """What several workers had, or none."""
        return {"content": self.joined([self._content(part[self]) for part in parts])}

    def check(self, held: dict[Any, Any], scope: Any = None) -> None:
        """Raise `InvalidInputError` if this was not saved."""
        held[self] = {"content": self._content(held[self])}

    def load(self, held: Mapping[str, Any], scope: Any = None) -> None:
        """Hold what was saved."""
        self.hold(self._content(held))

    def _content(self, held: Mapping[str, Any]) -> Any:
        if "content" in held:
            return held["content"]
        with misfits_named():
            return self.read(held)


class HeldPass(PackedHolder):
    """The pass of a sampler as a holder; of several workers the parts of all."""

    name = kind = "pass"

    def saved(self, scope: Any = None) -> dict[str, np.ndarray]:
        """The parts of the pass, as JSON."""
        parts = self._owner.parts()
        return {"": _bytes(json.dumps(parts).encode())} if parts else {}

    def read(self, arrays: Mapping[str, np.ndarray]) -> list[Part]:
        """The parts of the pass."""
        found = json.loads(arrays[""].tobytes()) if arrays else []
        parts = [Part(dict(settings), *map(operator.index, counts)) for settings, *counts in found]
        if any(len(counts) != 3 or min(counts) < 0 for _, *counts in found):
            raise ValueError("a pass has settings, rank, samples done and samples due")
        return parts

    def joined(self, contents: Sequence[list[Part]]) -> list[Part]:
        """The parts of all."""
        return [part for parts in contents for part in parts]

    def hold(self, content: list[Part]) -> None:
        """Go on from these parts."""
        self._owner.hold(content)


class Plan(NamedTuple):
    """Which holder takes what of a state dict.

    Args:
        of: what the state dict says that it is of.
        keys: by holder, what the keys of its arrays begin with; None: it holds nothing.
        parts: the names of the parts that are here.
        attached: puts parts with holders of their own into their places.
    """

    of: Any
    keys: dict[Holder, str | None]
    parts: list[str]
    attached: list[Callable[[], None]]

    @property
    def missing(self) -> list[str]:
        """The parts that the state dict lacks."""
        return [name for name in self.parts if name not in self.of["parts"]]

    @property
    def unexpected(self) -> list[str]:
        """The parts that only the state dict has."""
        return [name for name in self.of["parts"] if name not in self.parts]


def _bytes(data: bytes) -> np.ndarray:
    return np.frombuffer(bytearray(data), np.uint8)
