"""A single change of the broker, as a text and what stands in its place; it fails loudly where it no longer fits."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from msgspec import Struct, convert

__all__ = ["Mutant", "NotApplicable", "mutants"]

PACKAGE = Path(__file__).parents[3] / "broker" / "odradek"
TABLE = Path(__file__).with_name("mutants.toml")


class NotApplicable(Exception):
    """The text that a mutant changes is not there any more, or more than once."""


class Mutant(Struct, frozen=True, forbid_unknown_fields=True):
    """One change."""

    name: str
    file: str
    workload: str
    old: str
    new: str
    quick: bool = False

    @property
    def path(self) -> Path:
        """The file that it changes."""
        return PACKAGE / self.file

    @property
    def module(self) -> str:
        """The module that it changes."""
        return "odradek." + self.file.removesuffix(".py").replace("/", ".")

    def source(self) -> str:
        """The changed source. Raises NotApplicable."""
        source = self.path.read_text()
        count = source.count(self.old)
        if count != 1:
            raise NotApplicable(f"{self.name}: its text stands {count} times in {self.file}")
        return source.replace(self.old, self.new)

    def install(self) -> None:
        """Let whoever imports the module from now on get the changed one."""
        if self.module in sys.modules:
            raise NotApplicable(f"{self.name}: {self.module} is imported already")
        sys.meta_path.insert(0, _Finder(self.module, str(self.path), self.source()))


class _Loader(SourceFileLoader):
    def __init__(self, module: str, path: str, source: str) -> None:
        super().__init__(module, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        # Without the cache of compiled modules, which knows the file as it is.
        code: CodeType = compile(self._source, self.path, "exec", dont_inherit=True)
        return code


class _Finder(MetaPathFinder):
    def __init__(self, module: str, path: str, source: str) -> None:
        self._module, self._path, self._source = module, path, source

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._module:
            return None
        return spec_from_file_location(fullname, self._path, loader=_Loader(self._module, self._path, self._source))


def mutants() -> list[Mutant]:
    """All of them."""
    return convert(tomllib.loads(TABLE.read_text())["mutant"], list[Mutant])
