"""Settings: the constructor's arguments, kept as given, and compared by value.

>>> class Scaled(Told):
...     def __init__(self, scale, *, shift=0.0):
...         self.batches = 0  # not an argument, hence not a setting
>>> Scaled(2).settings(), difference(described(Scaled(2)), described(Scaled(2, shift=1.5)))
({'scale': 2, 'shift': 0.0}, 'shift is 1.5, here 0.0')
"""

from __future__ import annotations

import enum
import functools
import hashlib
import inspect
import json
import types
import weakref
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Iterable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.errors import InvalidInputError, MissingArgumentError, UnknownArgumentError
from fleetmetrics.support.tensors import as_array
from fleetmetrics.support.vocabulary import with_article

__all__ = [
    "AllArguments",
    "Told",
    "class_of",
    "described",
    "difference",
    "raise_if_missing",
    "raise_if_positional",
    "raise_if_unknown",
]

#: Short descriptions replace longer sequences by a digest.
_LONG = 64
#: The depth of inspection of objects other than metrics and containers.
_DEEPEST = 8
#: The key of the class in the description of an object; no argument has this name.
_CLASS = ""
_MISSING = object()
#: Types whose values compare as a whole.
_PLAIN = (bool, int, float, str, tuple, list, dict)
_NESTED = "a setting holds itself, or is nested too deeply; give lists and dicts that end"

_signatures: weakref.WeakKeyDictionary[type, inspect.Signature] = weakref.WeakKeyDictionary()


class Told:
    """A class that keeps its constructor's arguments. Attributes are not settings: a class may store anything."""

    #: Arguments that cannot change the result.
    incidental: ClassVar[tuple[str, ...]] = ()

    _made_with: tuple[tuple[Any, ...], dict[str, Any]]
    _settled: dict[str, Any]
    _terms_found: str = ""

    if not TYPE_CHECKING:  # their signature is that of __init__

        def __new__(cls, *arguments: Any, **settings: Any) -> Any:
            """Keep the arguments; copies and pickles pass none, because they carry theirs."""
            instance = super().__new__(cls)
            try:
                instance._made_with = _kept(arguments), _kept(settings)
            except RecursionError:
                raise InvalidInputError(f"{cls.__name__}: {_NESTED}") from None
            instance._settled = {}
            return instance

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments by name, defaults included."""
        settings = {**_bound(type(self), *self._made_with), **self._settled}
        return {name: value for name, value in settings.items() if name not in self.incidental}

    def __repr__(self) -> str:
        """The class and the arguments that differ from their defaults, as in the constructor's call."""
        if not hasattr(self, "_made_with"):  # a copy in the making
            return f"<{type(self).__name__}>"
        kind: type = type(self)
        parameters, positional = signature_of(kind).parameters, _parameters_of(kind).names
        arguments: list[str] = []
        for name, value in _bound(kind, *self._made_with).items():
            parameter = parameters.get(name)
            if parameter is not None and parameter.kind is parameter.VAR_POSITIONAL:
                arguments += map(_shown, value)
            elif parameter is None or not _is_default(value, parameter.default):
                required = parameter is not None and parameter.default is parameter.empty
                by_place = required and name in positional
                arguments.append(_shown(value) if by_place else f"{name}={_shown(value)}")
        return f"{kind.__name__}({', '.join(arguments)})"

    def settle(self, **values: Any) -> None:
        """Normalize arguments that can be written in several ways, so that equal settings compare equal.

        Args:
            **values: values by the arguments' names; unknown names are ignored.
        """
        known = signature_of(type(self)).parameters
        self._settled.update({name: value for name, value in values.items() if name in known})
        self._terms_found = ""

    def _replace(self, old: Any, own: Any) -> None:
        """Keep another object in place of an argument."""
        arguments, settings = self._made_with
        self._made_with = (
            tuple(own if argument is old else argument for argument in arguments),
            {name: own if setting is old else setting for name, setting in settings.items()},
        )
        self._terms_found = ""

    def _terms(self) -> str:
        """The settings on which all workers must agree, as JSON; foreign objects count by their class.

        Foreign objects, such as a logger or a data set, may differ by worker.
        """
        if not self._terms_found:
            self._terms_found = json.dumps(_comparable(self), sort_keys=True)
        return self._terms_found


def _kept(value: Any) -> Any:
    """An argument with copied containers, since the caller may change the originals."""
    if type(value) in (list, tuple, set):
        return type(value)(map(_kept, value))
    return {name: _kept(entry) for name, entry in value.items()} if type(value) is dict else value


def _is_default(value: Any, default: Any) -> bool:
    """Whether an argument is the parameter's default; arrays, which compare entry by entry, are none."""
    return value is default or (type(value) is type(default) and type(value) in _PLAIN and value == default)


def _shown(value: Any) -> str:
    """The repr of an argument; of an object that has none the class, since an address says nothing."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_shown(key)}: {_shown(entry)}" for key, entry in value.items()) + "}"
    if type(value) is list:
        return f"[{', '.join(map(_shown, value))}]"
    if type(value) is tuple:
        return f"({', '.join(map(_shown, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        return value.__qualname__
    text = repr(value)
    return f"<{type(value).__name__}>" if " at 0x" in text else text


def signature_of(kind: type) -> inspect.Signature:
    """The arguments of a class's ``__init__``, and those of the bases to which ``**`` passes."""
    if kind not in _signatures:
        _signatures[kind] = _signature(kind)
    return _signatures[kind]


def _signature(kind: type) -> inspect.Signature:
    parameters: dict[str, inspect.Parameter] = {}
    for init in [vars(base)["__init__"] for base in kind.__mro__[:-1] if "__init__" in vars(base)]:
        own = list(inspect.signature(init).parameters.values())[1:]
        if parameters:  # a derived class passes them on by keyword
            own = [
                parameter.replace(kind=parameter.KEYWORD_ONLY)
                if parameter.kind < parameter.VAR_POSITIONAL
                else parameter
                for parameter in own
            ]
        named = [parameter for parameter in own if parameter.kind is not parameter.VAR_KEYWORD]
        parameters.update({parameter.name: parameter for parameter in named if parameter.name not in parameters})
        if named == own:
            break
    return inspect.Signature(sorted(parameters.values(), key=lambda parameter: parameter.kind))


class AllArguments:
    """A class's ``__signature__``, as `signature_of` has it."""

    def __get__(self, _: Any, owner: type) -> inspect.Signature:
        return signature_of(owner)


def _bound(kind: type, arguments: Sequence[Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by name, with the defaults of those that were not given, in the order of the signature."""
    order, names, rest, defaults = _parameters_of(kind)
    bound = {**defaults, **dict(zip(names, arguments))}
    if rest is not None:
        bound[rest] = arguments[len(names) :]
    bound.update(settings)
    return {**{name: bound[name] for name in order if name in bound}, **bound}


class _Parameters(NamedTuple):
    """The parameters of a class: all names, the positional ones, the name of ``*args``, and the defaults."""

    order: Sequence[str]
    names: Sequence[str]
    rest: str | None
    defaults: Mapping[str, Any]


@functools.lru_cache(maxsize=512)
def _parameters_of(kind: type) -> _Parameters:
    parameters = list(signature_of(kind).parameters.values())
    return _Parameters(
        [parameter.name for parameter in parameters],
        [parameter.name for parameter in parameters if parameter.kind < parameter.VAR_POSITIONAL],
        next((parameter.name for parameter in parameters if parameter.kind is parameter.VAR_POSITIONAL), None),
        {parameter.name: parameter.default for parameter in parameters if parameter.default is not parameter.empty},
    )


def raise_if_positional(kind: type, arguments: Sequence[Any]) -> None:
    """Raise for a positional argument that the class takes by keyword; the message suggests the keyword."""
    parameters = signature_of(kind).parameters.values()
    taken = [parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    if len(arguments) <= len(taken) or any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return
    value = arguments[len(taken)]
    fits = [
        parameter.name
        for parameter in parameters
        if isinstance(value, str) and repr(value) in str(parameter.annotation)
    ]
    named = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    if not fits and isinstance(value, str) and "name" in named:
        fits = ["name"]
    raise InvalidInputError(
        f"{kind.__name__} takes {', '.join(named)} by keyword, and was given {value!r} without"
        + (f"; did you mean {fits[0]}={value!r}?" if fits else "")
    )


def raise_if_missing(kind: type, arguments: Sequence[Any], settings: Mapping[str, Any]) -> None:
    """Raise for an argument that the class needs; without any argument, since a copy passes none, Python does."""
    by_place, by_name = _needed(kind)
    if not by_place and not by_name:  # as most metrics
        return
    missing = [name for name in (*by_place[len(arguments) :], *by_name) if name not in settings]
    if missing and (arguments or settings):
        raise MissingArgumentError(
            f"{kind.__name__} needs {', '.join(missing)}: {kind.__name__}({missing[0]}=..., ...)"
        )


@functools.lru_cache(maxsize=512)
def _needed(kind: type) -> tuple[list[str], list[str]]:
    """The names without a default: of positional arguments, and of those by keyword."""
    owner = next(base for base in kind.__mro__ if "__init__" in vars(base))
    parameters = [*signature_of(owner).parameters.values()]
    if not owner.__module__.startswith("fleetmetrics."):  # a class of a user may give its bases what they need
        own = inspect.signature(owner.__init__).parameters  # type: ignore[misc]
        parameters = [parameter for parameter in parameters if parameter.name in own]
    needed = [parameter for parameter in parameters if parameter.default is parameter.empty]
    by_name = [parameter.name for parameter in needed if parameter.kind is parameter.KEYWORD_ONLY]
    return [parameter.name for parameter in needed if parameter.kind < parameter.VAR_POSITIONAL], by_name


def raise_if_unknown(kind: type, names: Iterable[str]) -> None:
    """Raise for unknown settings."""
    for name in names:
        from fleetmetrics.support.hints import hint_of_argument

        known = list(signature_of(kind).parameters)
        raise UnknownArgumentError(
            f"{kind.__name__} has no setting {name!r}{hint_of_argument(name, known)} It takes {', '.join(known)}"
        )


def described(value: Any, short: bool = False) -> Any:
    """Describe a setting as JSON; equal settings have equal descriptions in any process.

    Args:
        value: anything.
        short: whether to replace long sequences and arrays by a digest.

    Raises:
        InvalidInputError: the setting cannot be described, for example an iterator, which cannot be read twice.
    """
    return _described_safely("a setting", value, short, 0)


def _comparable(value: Any) -> Any:
    """A short description in which equal numbers are alike; an object that cannot be described counts by its class."""
    if isinstance(value, Told):
        settings = {name: _comparable(setting) for name, setting in value.settings().items()}
        return {_CLASS: type(value).__qualname__, **settings}
    if type(value) in (list, tuple) and len(value) <= _LONG:
        return [_comparable(entry) for entry in value]
    if type(value) is dict:
        return {name if isinstance(name, str) else repr(name): _comparable(entry) for name, entry in value.items()}
    if isinstance(value, functools.partial):
        return [_comparable(part) for part in (value.func, value.args, value.keywords)]
    _raise_if_nameless(value)
    try:
        return _with_equal_numbers(_described(value, short=True, depth=_DEEPEST))
    except Exception:
        return type(value).__qualname__


def _with_equal_numbers(description: Any) -> Any:
    """A description in which True and 1.0 are 1, as `difference` compares them."""
    if isinstance(description, dict):
        return {name: _with_equal_numbers(entry) for name, entry in description.items()}
    if isinstance(description, list):
        return [_with_equal_numbers(entry) for entry in description]
    whole = isinstance(description, (bool, float)) and description == description // 1
    return int(description) if whole else description


def _described_safely(what: str, value: Any, short: bool, depth: int) -> Any:
    """The description; an error from a user's object becomes an `InvalidInputError` that names the setting."""
    try:
        return _described(value, short, depth)
    except InvalidInputError:
        raise
    except RecursionError:
        raise InvalidInputError(_NESTED) from None
    except Exception as error:
        raise InvalidInputError(
            f"{what}, of type {type(value).__name__}, cannot be compared with others, so that nothing can be saved or "
            f"merged: {type(error).__name__}: {error}"
        ) from error


def _described(value: Any, short: bool, depth: int) -> Any:
    if value is None or (isinstance(value, (bool, int, float, str)) and not isinstance(value, enum.Enum)):
        return value
    if isinstance(value, np.generic):
        return value.item() if value.dtype.kind in "biuf" else str(value)
    if isinstance(value, enum.Enum):
        return [type(value).__qualname__, value.name]
    if isinstance(value, (bytes, memoryview)):
        return value.hex()
    if isinstance(value, Told):
        attributes = {
            name: _described_safely(f"{type(value).__name__}'s setting {name!r}", setting, short, depth)
            for name, setting in value.settings().items()
        }
        return {_CLASS: type(value).__qualname__, **attributes}
    if hasattr(value, "_fields"):  # a named tuple
        return _described(value._asdict(), short, depth)
    if isinstance(value, Mapping):
        texts = {name if isinstance(name, str) else repr(name): entry for name, entry in value.items()}
        return {name: _described(text, short, depth) for name, text in texts.items()}
    if isinstance(value, Iterator):
        raise InvalidInputError(
            f"a setting is {with_article(type(value).__name__)}, which can be read only once, so it can be "
            "neither compared nor copied; give a list"
        )
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        return [_of_numbers(value.filled(), short), _of_numbers(np.ma.getmaskarray(value), short)]
    if hasattr(value, "__array__") and not isinstance(value, type):
        return _of_numbers(as_array(value, "a setting"), short)
    if isinstance(value, (list, tuple, range, set, frozenset)):
        return _of_sequence(value, short, depth)
    return _of_object(value, short, depth)


def _of_numbers(array: np.ndarray, short: bool) -> Any:
    """An array as lists, or its digest, the same for integers and for floats that are whole."""
    if not short or array.size <= _LONG or array.dtype.kind not in "biuf":
        return _described(array.tolist(), short, 0)
    if array.dtype.kind == "f" and (np.abs(array) < 2.0**53).all() and (array == np.floor(array)).all():
        array = array.astype(np.int64)
    if array.dtype.kind == "f":
        array = array.astype(np.float64)
    elif array.dtype != np.uint64:
        array = array.astype(np.int64)
    return [list(array.shape), hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()]


def _of_sequence(value: Any, short: bool, depth: int) -> Any:
    if short and len(value) > _LONG and all(type(entry) in (int, float) for entry in value):
        array = np.asarray(list(value))
        if array.dtype.kind in "if":
            return _of_numbers(array, short)
    entries = [_described(entry, short, depth) for entry in value]
    if isinstance(value, (set, frozenset)):
        entries.sort(key=repr)
    if not short or len(entries) <= _LONG:
        return entries
    return [len(entries), hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()]


def _of_object(value: Any, short: bool, depth: int) -> Any:
    """A function by its name; any other object by its attributes."""
    if isinstance(value, functools.partial):
        return [_described(part, short, depth) for part in (value.func, value.args, value.keywords)]
    named = getattr(value, "__qualname__", None) or type(value).__qualname__
    if depth >= _DEEPEST:
        return named
    if callable(value) and hasattr(value, "__qualname__"):
        owner = getattr(value, "__self__", None)
        if owner is not None and not isinstance(owner, (types.ModuleType, type)):
            return [named, _described(owner, short, depth + 1)]
        _raise_if_nameless(value)
        return named
    return {_CLASS: named, **_described(_attributes(value), short, depth + 1)}


def _raise_if_nameless(value: Any) -> None:
    """Raise for a lambda or a local function: two of them may have one name, and only their code would tell."""
    function = value.__func__ if type(value) is types.MethodType else value
    if isinstance(function, types.FunctionType) and "<" in function.__qualname__:
        place = f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"
        raise InvalidInputError(
            f"a setting is the function {function.__qualname__} of {place}, which has no name at the top level of a "
            "module, so that it cannot be compared with that of another worker or of a checkpoint; define it there, "
            "and bind what else it needs with functools.partial"
        )


def _attributes(value: Any) -> Mapping[str, Any]:
    """An object's attributes; if it has none, its text, unless that is an address."""
    if type(value).__module__.startswith("numpy.random"):
        return _seed_of(value)
    kind: type = type(value)
    slots = {name: getattr(value, name) for name in _slots_of(kind) if hasattr(value, name)}
    own = getattr(value, "__dict__", {})
    text = "" if own else repr(value)
    return {"value": text} if text and " at 0x" not in text else {**slots, **own}


@functools.lru_cache(maxsize=512)
def _slots_of(kind: type) -> Sequence[str]:
    """The attributes that a class and its bases keep in slots, by their full names."""
    all_names = []
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        names = [slots] if isinstance(slots, str) else list(slots)
        private = f"_{base.__name__.lstrip('_')}"
        all_names += [private + name if name[:2] == "__" and name[-2:] != "__" else name for name in names]
    return [name for name in all_names if name not in ("__dict__", "__weakref__")]


def _seed_of(generator: Any) -> Mapping[str, Any]:
    """The seed of a random generator of NumPy, which stays the same while numbers are drawn."""
    bits = getattr(generator, "bit_generator", generator)
    seed = getattr(bits, "_seed_seq", None) or getattr(bits, "seed_seq", None) or bits
    if not hasattr(seed, "entropy"):
        raise InvalidInputError(
            f"a setting, of type {type(generator).__name__}, has no seed that can be read, and its state changes with "
            "each draw, so that it cannot be compared with others; give a seed, or numpy.random.default_rng(seed)"
        )
    return {"generator": type(bits).__qualname__, "entropy": seed.entropy, "spawn_key": seed.spawn_key}


def class_of(description: Any) -> Any:
    """The name of the class in a description; None if it does not describe an object."""
    return description.get(_CLASS) if isinstance(description, dict) else None


def difference(
    one: Any,
    other: Any,
    name: Callable[[str], str] = str,
    where: str = "",
    at: str = "",
    *,
    here: str = "here",
    there: str = "",
) -> str:
    """The first difference between two descriptions, in words; "" if they are equal.

    Args:
        one: the description here.
        other: the other description.
        name: formats the name of a setting.
        where: the setting of both.
        at: the objects that enclose this setting.
        here: the name of the place of the first description.
        there: the name of the place of the other one.
    """
    differing = _first_difference(one, other, where, at)
    if differing is None:
        return ""
    objects, setting, own, its = differing
    what = f"{name(setting)} is" if setting else "it is"
    path = f"in {objects!r}: " if objects else ""
    return f"{path}{what} {its}{there and f' {there}'}, {here} {own}"


def _first_difference(one: Any, other: Any, where: str, at: str) -> tuple[str, str, str, str] | None:
    """The path of objects, the setting, "" if whole objects differ, and both values in words; None: they are equal."""
    if isinstance(one, dict) and isinstance(other, dict):
        inside = _path(at, where)
        if one.get(_CLASS) != other.get(_CLASS):
            own, its = (with_article(str(side.get(_CLASS))) for side in (one, other))
            return inside, "", own, its
        values = ((key, one.get(key, _MISSING), other.get(key, _MISSING)) for key in {**one, **other})
        differing = (_first_difference(own, its, key, inside) for key, own, its in values)
        return next(filter(None, differing), None)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return next(filter(None, (_first_difference(own, its, where, at) for own, its in zip(one, other))), None)
    alike = type(one) is type(other) or (isinstance(one, (int, float)) and isinstance(other, (int, float)))
    if alike and (one == other or (one != one and other != other)):  # nan is equal to nan here
        return None
    own, its = ("missing" if side is _MISSING else f"{side!r:.80}" for side in (one, other))
    return _path(at) if where else "", where, own, its


def _path(*names: str) -> str:
    return ".".join(filter(None, names))
