"""One clear sentence where the extra is not installed."""

from __future__ import annotations

import importlib.util

from odradek.usage import UsageError

__all__ = ["need"]


def need(*modules: str) -> None:
    """End the command if it lacks one of these modules."""
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        raise UsageError(f"This command needs {', '.join(missing)}: pip install odradek[pipeline]")
