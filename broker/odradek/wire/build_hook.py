"""Hatchling's hook: generate the message modules before a wheel or an editable install is made.

The build runs in an environment of its own, in which neither this package nor what it depends on is installed.
So the generator, which needs the standard library only, is imported from its files,
under its own name but without running the `__init__` of the packages around it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

__all__ = ["GenerateMessages", "generate_messages"]


class GenerateMessages(BuildHookInterface):  # type: ignore[type-arg,misc,unused-ignore]
    """Runs `odradek.wire.generate`."""

    def initialize(self, version: str, build_data: dict[str, object]) -> None:
        del version, build_data
        root = Path(self.root)
        package = root / "broker" / "odradek"
        for name in generate_messages(package, root / "protocol_schemas"):
            self.app.display_debug(f"generated {name}")


def generate_messages(package: Path, schemas: Path) -> list[str]:
    """Write the modules of `package` from these schemas; return the names of those that changed."""
    before = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "odradek"}
    for name in before:
        del sys.modules[name]
    try:
        for name, folder in (("odradek", package), ("odradek.wire", package / "wire")):
            module = ModuleType(name)
            module.__path__ = [str(folder)]
            sys.modules[name] = module
        changed: list[str] = import_module("odradek.wire.generate").write(schemas, package / "wire" / "messages")
        return changed
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "odradek"]:
            del sys.modules[name]
        sys.modules.update(before)
