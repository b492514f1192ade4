"""How modules are imported at the start of a command: without garbage collections, sources first, and what others
import without a need when it is needed.

Imports create next to no garbage, and a full collection visits everything that was imported so far. So does the first
collection behind them, of the youngest objects, in 5 ms: what is imported is frozen (`gc.freeze`).
"""

from __future__ import annotations

import gc
import os
import sys
from _thread import RLock
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, PathFinder, SourceFileLoader
from types import FunctionType, GeneratorType, ModuleType

__all__ = ["WAITING", "NoCollections", "WaitingModule", "find_sources_first", "let_modules_wait"]

CO_COROUTINE = 0x80
"""As in `inspect`."""
PACKAGE = os.path.dirname(os.path.dirname(__file__))


class NoCollections:
    """No automatic collections inside the block; what was made in it is left out of those behind it."""

    def __enter__(self) -> None:
        self._collects = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._collects:
            gc.freeze()
            gc.enable()


def find_sources_first() -> None:
    """From now on a module of this package is looked for as a source alone.

    Python looks for three kinds of compiled extensions before: for 180 modules that is 4 % of a start.
    """
    if _sources not in sys.path_hooks:
        sys.path_hooks.insert(0, _sources)


def _sources(path: str) -> FileFinder:
    """A finder for a folder of this package. Raises ImportError for others, as a path hook does."""
    if not path.startswith(PACKAGE) or not os.path.isdir(path):
        raise ImportError
    return FileFinder(path, (SourceFileLoader, SOURCE_SUFFIXES))


def let_modules_wait() -> None:
    """From now on the modules in `WAITING` are loaded when something of them is first used, and not when others import
    them.

    asyncio, uvloop and msgspec import them for what a start never does, such as drawing tracebacks and schemas. They
    are a tenth of it.
    """
    if _WaitingFinder not in sys.meta_path:
        sys.meta_path.insert(0, _WaitingFinder)


def _of_inspect() -> Mapping[str, object]:
    """Answers for plain functions, which are all that uvloop and asyncio ask about at a start."""

    def is_coroutine_function(of: object) -> object:
        if type(of) is FunctionType and not of.__dict__:
            return bool(of.__code__.co_flags & CO_COROUTINE)
        return _loaded("inspect").iscoroutinefunction(of)

    def unwrap(of: object, **how: object) -> object:
        return _loaded("inspect").unwrap(of, **how) if hasattr(of, "__wrapped__") else of

    return {
        "iscoroutinefunction": is_coroutine_function,
        "isfunction": lambda of: isinstance(of, FunctionType),
        "isgenerator": lambda of: isinstance(of, GeneratorType),
        "unwrap": unwrap,
    }


def _of_platform() -> Mapping[str, object]:
    return {"system": lambda: os.uname().sysname} if hasattr(os, "uname") else {}


def _of_typing_extensions() -> Mapping[str, object]:
    import typing

    return {
        "NotRequired": typing.NotRequired,
        "Required": typing.Required,
        "get_type_hints": typing.get_type_hints,
    }


def _nothing() -> Mapping[str, object]:
    return {}


WAITING: Mapping[str, Callable[[], Mapping[str, object]]] = {
    "asyncio.sslproto": _nothing,
    "asyncio.staggered": _nothing,
    "inspect": _of_inspect,
    "linecache": _nothing,
    "locale": _nothing,
    "msgspec.inspect": _nothing,
    "platform": _of_platform,
    "textwrap": _nothing,
    "tokenize": _nothing,
    "typing_extensions": _of_typing_extensions,
}
"""The modules, and what some importers take of them at once: it says the same as the module's own, which take its place
when it is loaded."""


class WaitingModule(ModuleType):
    """A module that has been found, and is loaded with the first use of something that it does not have yet."""

    def __getattr__(self, name: str) -> object:
        if name == "__path__":  # `from MODULE import …` asks whether it is a package, and none is
            raise AttributeError(name)
        _load(self)
        try:
            return self.__dict__[name]
        except KeyError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None


_LOADING = RLock()


def _load(module: ModuleType) -> None:
    """Run the code of a module that waits. If that fails, for want of a file descriptor, the next use tries again."""
    with _LOADING:  # a thread that comes second waits for the whole module
        waits = type(module) is WaitingModule
        if not waits or "__loading__" in module.__dict__:
            return
        assert module.__spec__ is not None, "the finder has given it one"
        assert isinstance(module.__spec__.loader, _WaitingLoader), "it is the finder's"
        module.__dict__["__loading__"] = True
        try:
            SourceFileLoader.exec_module(module.__spec__.loader, module)
        finally:
            del module.__dict__["__loading__"]
        module.__class__ = ModuleType


def _loaded(name: str) -> ModuleType:
    _load(sys.modules[name])
    return sys.modules[name]


class _WaitingLoader(SourceFileLoader):
    """Leaves the code of a module to its first use."""

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__.update(WAITING[module.__name__]())
        module.__class__ = WaitingModule


class _WaitingFinder:
    """Finds the modules that wait; others are found as before."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in WAITING:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _WaitingLoader(spec.loader.name, spec.loader.path)
        return spec
