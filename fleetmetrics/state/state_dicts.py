"""State dicts: the contents of metrics as plain arrays, and the plan for loading them.

Accumulators consist of holders: states, tables, records; see `Holder`. This module has everything else, once.
"""

from __future__ import annotations

import abc
import json
import operator
import os
import re
from typing import Any, Callable, Mapping, NamedTuple, Protocol, Sequence

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.samplers.progress import Part
from fleetmetrics.serial import MISFITS, described_array, misfits_named
from fleetmetrics.support.checks import flag_of
from fleetmetrics.support.settings import Told, class_of, described, difference
from fleetmetrics.xp import to_host

__all__ = ["ABOUT", "Checkpointed", "HeldPass", "Holder", "PackedHolder", "Plan", "is_of_a_state"]

#: The version of state dicts and files; other versions are rejected.
FORMAT = 1
#: The entry of a state dict that describes the others: JSON as bytes.
ABOUT = "fleetmetrics"
#: `paddle.load` turns these into tensors without loss; arrays of other dtypes go as bytes.
_PLAIN = frozenset(["bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64"])
#: Entries to distribute if the number of workers changes.
_DEALT = re.compile(r"\d+:")


def is_of_a_state(key: str) -> bool:
    """Whether an entry belongs to a state, which one worker takes whole, and not to records to distribute."""
    return _DEALT.match(key) is None


def _begins(key: str, start: str) -> bool:
    """Whether an entry belongs to the holder whose keys begin with this; see `_key`."""
    return key.startswith(start) if start.endswith(":") else key == start or key.startswith(f"{start}:")


def _key(place: int, holder: Holder, name: str) -> str:
    return f"{place}:{name}" if holder.dealt else f"{place}.{holder.name.rpartition('.')[2]}{name}"


class Holder(Protocol):
    """An object with contents to save and merge: a state, a table with its metrics, records, a pass."""

    @property
    def name(self) -> str:
        """The beginning of its keys in a state dict."""

    @property
    def kind(self) -> Any:
        """The attributes that must be equal for one holder to load another's contents."""

    @property
    def dealt(self) -> bool:
        """Whether a different number of workers distributes the parts instead of merging them."""

    def saved(self, scope: Any = None) -> dict[str, np.ndarray]:
        """Its contents, as copied arrays by name; empty if it holds nothing."""

    def together(self, parts: Sequence[Mapping[Any, Any]]) -> dict[str, Any]:
        """Merge the `saved` contents of several holders and their neighbors, by holder."""

    def check(self, held: Any, scope: Any = None) -> None:
        """Raise InvalidInputError if it cannot `load` its entries of this."""

    def load(self, held: Mapping[str, Any], scope: Any = None) -> None:
        """Load what was `saved`; cannot fail after `check`."""


#: What only this package calls, and what authors of metrics define.
_FOR_AUTHORS = {
    *("holders", "incidental", "joined", "name_in_errors", "settle", "share", "shares", "warns_of_repeats"),
    *("compute_from", "summarize"),
}


class Checkpointed(Told):
    """An object that can be saved and resumed."""

    def __dir__(self) -> list[str]:
        """Leave out of completion what users do not call."""
        return [name for name in super().__dir__() if name not in _FOR_AUTHORS]

    def holders(self) -> Sequence[Holder]:
        """Its holders, in an order that its class and settings determine."""
        raise NotImplementedError

    def name_in_errors(self) -> str:
        """The name of this object in errors."""
        return type(self).__name__

    def _parts(self) -> dict[str, tuple[Any, Sequence[Holder]]]:
        """The separately loadable parts, by name: settings and holders of each."""
        return {"": (None, self.holders())}

    def _apart(self, name: str) -> tuple[Sequence[Holder], Callable[[], None]]:
        """Holders in place of a part's shared ones; and a function that moves what they have loaded into the part."""
        raise NotImplementedError

    def _about(self) -> Any:
        """The description that must match when loading: the settings, and of each part settings, and holders by key."""
        keys = {holder: _key(place, holder, "") for place, holder in enumerate(self.holders())}
        parts = {
            name: [
                described(its, short=True),
                [[keys[holder], described(holder.kind, short=True)] for holder in holders],
            ]
            for name, (its, holders) in self._parts().items()
        }
        return json.loads(json.dumps({"settings": described(self, short=True), "parts": parts}))

    def state_dict(self, scope: Any = None) -> dict[str, np.ndarray]:
        """Return this worker's contents, for `set_state_dict`, `paddle.save` or `numpy.savez`.

        Args:
            scope: the scope of a static program's variables; None: the global scope.

        Returns:
            Arrays of numbers by name, copied. "fleetmetrics" describes the others: JSON as bytes, with the class
            and its settings.

        Examples:
            >>> from fleetmetrics import Accuracy
            >>> metric, again = Accuracy(), Accuracy()
            >>> metric.add([0.9, 0.2, 0.7], [1, 0, 0])
            >>> again.set_state_dict(metric.state_dict())
            >>> again.compute()
            0.6666666666666666
        """
        contents = {
            _key(place, holder, name): array
            for place, holder in enumerate(self.holders())
            for name, array in holder.saved(scope).items()
        }
        from fleetmetrics._version import __version__

        layout = {key: [array.dtype.str, list(array.shape)] for key, array in contents.items()}
        about = json.dumps({"format": FORMAT, "written by": __version__, "of": self._about(), "arrays": layout})
        arrays = {ABOUT: _bytes(about.encode())}
        for key, array in contents.items():
            plain = array.dtype.name in _PLAIN and array.dtype.isnative
            arrays[key] = array if plain else _bytes(array.tobytes())
        return arrays

    def set_state_dict(self, state: Mapping[str, Any], scope: Any = None, *, strict: bool = True) -> None:
        """Replace the contents by those of an object of the same class and settings.

        Args:
            state: from `state_dict`; arrays, or the tensors of `paddle.load`.
            scope: the scope of a static program's variables; None: the global scope.
            strict: False: a collection loads the metrics that it shares with the saved one; its other metrics become
                empty.

        Raises:
            InvalidInputError: class, version, settings or shapes differ; the message names the difference, and nothing
                has changed.
            StateNotFoundError: the scope lacks the states, because the startup program has not run.
        """
        plan = self._plan(state, flag_of("strict", strict))
        parts = [self._parsed(state, plan)]
        self._prepared(parts, parts, scope, plan)()

    def _said(self, state: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The description in a state dict, with the dtypes and shapes of its arrays."""
        owner = self.name_in_errors()
        if isinstance(state, (str, os.PathLike)):
            raise InvalidInputError(
                f"{owner}: state must be what state_dict returned, not the path {os.fspath(state)!r}; give what "
                "paddle.load or numpy.load returns, or use fleetmetrics.load for one that fleetmetrics.save "
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
            from fleetmetrics._version import __version__

            raise InvalidInputError(
                f"{owner}: the checkpoint has format {version!r:.40} (fleetmetrics {about.get('written by')!r:.40}), "
                f"and fleetmetrics {__version__} reads format {FORMAT}"
            )
        return of, layout

    def _plan(self, state: Mapping[str, Any], strict: bool = True) -> Plan:
        """The plan that assigns entries of a state dict, and of similar ones, to holders."""
        of = self._said(state)[0]
        own, owner = self._about(), self.name_in_errors()
        wrong = f"{owner}: the checkpoint comes from a different metric, or from different settings"
        with misfits_named():
            settings = of["settings"]
            theirs = {name: (its, dict(held)) for name, (its, held) in of["parts"].items()}
            if not all(isinstance(start, str) for _, held in theirs.values() for start in held):
                raise TypeError("keys of arrays are strings")
        mine = self._parts()
        partial = not strict and len(mine) > 1 and class_of(settings) == class_of(own["settings"])
        differs = "" if partial else difference(own["settings"], settings, repr)
        for name in [name for name in mine if name in theirs]:
            its, held = own["parts"][name]
            differs = differs or difference(its, theirs[name][0], repr, "", name)
            if not differs and [kind for _, kind in held] != [*theirs[name][1].values()]:
                differs = f"the states of {name!r} differ" if name else "its states differ"
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
        """The saved contents by holder; unless ``whole``, without those to distribute."""
        owner, (of, layout) = self.name_in_errors(), self._said(state)
        differs = difference(plan.of, of)
        if differs:
            raise InvalidInputError(
                f"{owner}: a part comes from a different metric, or from different settings, than the first: "
                f"{differs:.300}"
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
            raise InvalidInputError(
                f"{owner}: the checkpoint has {', '.join(map(repr, strange[:5]))}, which are unknown here"
            )
        return held

    def _array(self, state: Mapping[str, Any], key: str, entry: Any) -> np.ndarray:
        if key not in state:
            raise InvalidInputError(f"{self.name_in_errors()}: the checkpoint lacks {key!r}")
        try:
            (dtype, _), array = described_array(*entry), np.array(to_host(state[key]))
            array = (array.view(dtype) if array.dtype == np.uint8 != dtype else array).reshape(entry[1])
            if array.dtype != dtype:
                raise TypeError(f"it was {dtype} and is {array.dtype}")
        except MISFITS as error:
            raise InvalidInputError(
                f"{self.name_in_errors()}: {key!r} of the checkpoint is malformed: {error}"
            ) from None
        return array

    def _prepared(
        self, states: Sequence[Any], records: Sequence[Any], scope: Any, plan: Plan | None = None, same: bool = True
    ) -> Callable[[], None]:
        """A function that loads parts, those for its states and those for its records; this call raises all errors.

        Without parts, the function resets. ``same``: the number of workers is that of the parts, and there is one part.
        """
        holders, held = self.holders() if plan is None else list(plan.keys), {}
        for holder in holders:
            parts = records if holder.dealt else states
            held[holder] = parts[0][holder] if same and parts else holder.together(parts)
        for holder in holders:
            holder.check(held, scope)

        def apply() -> None:
            for holder in holders:
                holder.load(held[holder], scope)
            for attach in () if plan is None else plan.attached:
                attach()

        return apply


class PackedHolder(abc.ABC):
    """A holder of contents other than states: read from its arrays once, and then passed on unchanged.

    Args:
        owner: the owner of the contents.
    """

    dealt = False
    name = kind = ""

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    @abc.abstractmethod
    def saved(self, scope: Any = None) -> dict[str, np.ndarray]:
        """Its contents, as arrays."""

    @abc.abstractmethod
    def read(self, arrays: Mapping[str, np.ndarray]) -> Any:
        """Read the arrays of `saved`; raises one of `fleetmetrics.serial.MISFITS` for other arrays."""

    @abc.abstractmethod
    def joined(self, contents: Sequence[Any]) -> Any:
        """The contents of several workers, or of none."""

    @abc.abstractmethod
    def hold(self, content: Any) -> None:
        """Hold contents that were read."""

    def together(self, parts: Sequence[Mapping[Any, Any]]) -> dict[str, Any]:
        """The contents of several workers, or of none."""
        return {"content": self.joined([self._content(part[self]) for part in parts])}

    def check(self, held: dict[Any, Any], scope: Any = None) -> None:
        """Raise `InvalidInputError` if these are not saved contents."""
        held[self] = {"content": self._content(held[self])}

    def load(self, held: Mapping[str, Any], scope: Any = None) -> None:
        """Hold saved contents."""
        self.hold(self._content(held))

    def _content(self, held: Mapping[str, Any]) -> Any:
        if "content" in held:
            return held["content"]
        with misfits_named():
            return self.read(held)


class HeldPass(PackedHolder):
    """The pass of a sampler as a holder; from several workers, the parts of all."""

    name = kind = "pass"

    def saved(self, scope: Any = None) -> dict[str, np.ndarray]:
        """The parts of the pass, as JSON."""
        parts = self._owner.parts()
        return {"": _bytes(json.dumps(parts).encode())} if parts else {}

    def read(self, arrays: Mapping[str, np.ndarray]) -> list[Part]:
        """The parts of the pass."""
        entries = json.loads(arrays[""].tobytes()) if arrays else []
        parts = [Part(dict(settings), *map(operator.index, counts)) for settings, *counts in entries]
        if any(len(counts) != 3 or min(counts) < 0 for _, *counts in entries):
            raise ValueError("a pass has settings, rank, samples done and samples due")
        return parts

    def joined(self, contents: Sequence[list[Part]]) -> list[Part]:
        """The parts of all."""
        return [part for parts in contents for part in parts]

    def hold(self, content: list[Part]) -> None:
        """Continue from these parts."""
        self._owner.hold(content)


class Plan(NamedTuple):
    """The plan that assigns entries of a state dict to holders.

    Args:
        of: the description in the state dict.
        keys: by holder, the beginning of its arrays' keys; None: it holds nothing.
        parts: the names of the parts here.
        attached: moves what separate holders have loaded into their parts.
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
