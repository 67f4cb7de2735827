"""Metrics by name, for configurations."""

from __future__ import annotations

import inspect
import re
from typing import Any, Callable, Mapping, Sequence, TypeVar, overload

from fleetmetrics.errors import UnknownArgumentError, UnknownNameError
from fleetmetrics.support.hints import did_you_mean, hint_of_argument, near
from fleetmetrics.support.warning import warn

__all__ = ["ENGINE", "EVAL", "METRICS", "PRETRAIN", "Registry"]

#: What is registered: a class, which stays what it is.
Entry = TypeVar("Entry", bound=Callable[..., Any])

#: Python's own text.
_UNKNOWN = re.compile(r"unexpected keyword argument '(\w+)'")


class Registry:
    """Classes by name (``module_dict``), modeled on MMEngine's ``Registry``.

    A name is searched for here, then in the parent; ``"scope.Name"`` is searched for in that scope, then among the
    classes that were registered without one.

    Args:
        name: the kind of its entries, for errors.
        parent: the registry whose names are also valid here, unless this one gives a name to another class.
        scope: the name of this registry among its parents and their children.

    Examples:
        >>> shapes = Registry("shape")
        >>> @shapes.register_module()
        ... class Square:
        ...     def __init__(self, side):
        ...         self.side = side
        >>> shapes.build(dict(type="Square", side=2)).side
        2
    """

    name: str
    parent: Registry | None
    scope: str

    def __init__(self, name: str, *, parent: Registry | None = None, scope: str = "") -> None:
        self.name, self.parent, self.scope = name, parent, scope
        self.module_dict: dict[str, Callable[..., Any]] = {}
        self._scopes: dict[str, Registry] = {} if parent is None else parent._scopes
        self._scopes.setdefault(scope, self)

    def __len__(self) -> int:
        return len(self._names())

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def __repr__(self) -> str:
        return f"Registry(name={self.name!r}, items={self._names()})"

    def _names(self) -> list[str]:
        return sorted({*self.module_dict, *(() if self.parent is None else self.parent._names())})

    def get(self, key: str) -> Callable[..., Any] | None:
        """Return the class of this name, or None; raise TypeError unless the name is a str."""
        if not isinstance(key, str):
            raise TypeError(f"The key argument of `Registry.get` must be a str, got {type(key)}")
        if key in self.module_dict:
            return self.module_dict[key]
        scope, _, name = key.partition(".")
        if name and scope in self._scopes:
            name = name.rpartition(".")[2]
            # a script that imported METRICS from mmpretrain.registry has registered its own classes without a scope
            unscoped = self._scopes.get("", self).module_dict
            return self._scopes[scope].module_dict.get(name) or unscoped.get(name)
        return None if self.parent is None else self.parent.get(key)

    @overload
    def register_module(
        self, name: str | Sequence[str] | None = None, force: bool = False, module: None = None
    ) -> Callable[[Entry], Entry]: ...
    @overload
    def register_module(
        self, name: str | Sequence[str] | None = None, force: bool = False, *, module: Entry
    ) -> Entry: ...
    def register_module(
        self, name: str | Sequence[str] | None = None, force: bool = False, module: Callable[..., Any] | None = None
    ) -> Callable[..., Any]:
        """Register a class, as a decorator or directly.

        Args:
            name: one or several; None: the class's own.
            force: whether to replace a class of the same name; that of a parent without a warning.
            module: the class; None: return a decorator.

        Returns:
            The class, or the decorator.

        Raises:
            KeyError: if the name is taken.
            TypeError: if an argument has the wrong type.
        """
        if not isinstance(force, bool):
            raise TypeError(f"force must be a boolean, but got {type(force)}")
        names = [name] if isinstance(name, str) else name
        if names is not None and (not isinstance(names, (list, tuple)) or not all(isinstance(n, str) for n in names)):
            raise TypeError(f"name must be None, an instance of str, or a sequence of str, but got {type(name)}")

        def register(entry: Callable[..., Any]) -> Callable[..., Any]:
            if not callable(entry):
                raise TypeError(f"module must be Callable, but got {type(entry)}")
            for key in names or [entry.__name__]:
                if key in self.module_dict and not force:
                    where = self.module_dict[key].__module__
                    raise KeyError(f"{key} is already registered in {self.name} at {where}")
                hidden = None if force or self.parent is None else self.parent.get(key)
                if hidden is not None:
                    warn(
                        f"{key} in the {self.name} registry now refers to the class of {entry.__module__} instead of "
                        f"{hidden.__module__}; pass force=True to confirm"
                    )
                self.module_dict[key] = entry
            return entry

        return register if module is None else register(module)

    def build(self, cfg: Mapping[str, Any], default_args: Mapping[str, Any] | None = None) -> Any:
        """Return a new object as configured.

        Args:
            cfg: a dict with ``type``, a registered name or a class; the rest are arguments of the class.
            default_args: arguments that ``cfg`` overrides.

        Raises:
            TypeError: if ``cfg`` is not a dict, or ``type`` neither a str nor callable.
            UnknownNameError: (a KeyError) if ``type`` is missing, or the name is not registered.
            UnknownArgumentError: (a TypeError) if the class has no argument of that name.
        """
        if not isinstance(cfg, Mapping):
            raise TypeError(f"cfg should be a dict, ConfigDict or Config, but got {type(cfg)}")
        cfg = {**(default_args or {}), **cfg}
        if "type" not in cfg:
            raise UnknownNameError(f'`cfg` or `default_args` must contain the key "type", but got {cfg}')
        arguments = {key: value for key, value in cfg.items() if key not in ("type", "_scope_")}
        kind = cfg["type"]
        if isinstance(kind, str):
            kind = self.get(f"{cfg.get('_scope_')}.{kind}") or self.get(kind)
            if kind is None:
                hint = did_you_mean(map(repr, near(cfg["type"], self._names()))) or "."
                raise UnknownNameError(
                    f"{cfg['type']} is not in the {self.name} registry. Please check whether the value of"
                    f" `{cfg['type']}` is correct or it was registered as expected{hint} Known are:"
                    f" {', '.join(self._names())}"
                )
        if not callable(kind):
            raise TypeError(f"type must be a str or valid type, but got {type(kind)}")
        try:
            return kind(**arguments)
        except TypeError as error:
            unknown = _UNKNOWN.search(str(error))
            if unknown is None or unknown[1] not in arguments or isinstance(error, UnknownArgumentError):
                raise
            known = [
                parameter for parameter in inspect.signature(kind).parameters if parameter not in ("args", "kwargs")
            ]
            raise UnknownArgumentError(f"{error}{hint_of_argument(unknown[1], known)}") from error


ENGINE = Registry("metric", scope="mmengine")
#: The package's own: ``"mmpretrain.Accuracy"`` is one of these even if `METRICS` has another ``Accuracy``.
PRETRAIN = Registry("metric", parent=ENGINE, scope="mmpretrain")
#: Without any of the package's, which return percent where MMEval's return fractions.
EVAL = Registry("metric", parent=ENGINE, scope="mmeval")
#: The metrics that `fleetmetrics.evaluator.Evaluator` makes from configurations.
METRICS = Registry("metric", parent=PRETRAIN)
