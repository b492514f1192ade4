"""Modules that wait until something asks for what is in them.

The driver of an audit on Spark has half of its memory for pandas and Arrow, which it needs only for the verdicts: when
the JVM, which needs more, has ended.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any

__all__ = ["WAITING", "are_loaded", "wait"]

WAITING = ("pandas", "pyarrow", "pyarrow.compute", "pyarrow.parquet")


class _Waiting(ModuleType):
    """Is imported at once, and loaded when it is asked for a name: from then on it is a module like any other."""

    def __getattr__(self, name: str) -> Any:
        spec = self.__spec__
        assert spec is not None
        assert spec.loader is not None
        if spec.parent and spec.parent != self.__name__:
            importlib.import_module(spec.parent).__path__  # noqa: B018 - which loads it
        if isinstance(self, _Waiting):  # else its package has loaded it by now
            self.__class__ = ModuleType  # type: ignore[assignment]
            if spec.submodule_search_locations is not None:
                self.__path__ = spec.submodule_search_locations
            spec.loader.exec_module(self)
        return getattr(self, name)


def wait(names: Iterable[str] = WAITING) -> None:
    """Whoever imports these modules from now on waits; packages before what is in them."""
    for name in names:
        package, _, last = name.rpartition(".")
        parent = sys.modules.get(package)
        if name in sys.modules or (package and not isinstance(parent, _Waiting)):
            continue
        spec = PathFinder.find_spec(name, _places(parent))
        if spec is None:
            continue
        module = _Waiting(name)
        module.__spec__, module.__loader__, module.__package__ = spec, spec.loader, spec.parent
        module.__file__ = spec.origin
        with suppress(PackageNotFoundError):  # Spark asks which release it is
            module.__version__ = version(name)  # type: ignore[attr-defined]
        sys.modules[name] = module
        if parent is not None:
            setattr(parent, last, module)


def _places(parent: ModuleType | None) -> list[str] | None:
    spec = None if parent is None else parent.__spec__
    return None if spec is None else spec.submodule_search_locations


def are_loaded(names: Iterable[str] = WAITING) -> list[str]:
    """Those that do not wait any more."""
    return [name for name in names if name in sys.modules and not isinstance(sys.modules[name], _Waiting)]
