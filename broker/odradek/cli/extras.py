"""Checks for optional packages: a command that needs one says so in one sentence."""

from __future__ import annotations

import importlib.util

from odradek.cli.usage import UsageError

__all__ = ["is_there", "need"]

PACKAGES = {"confluent_kafka": "confluent-kafka", "opentelemetry.proto": "opentelemetry-proto"}
"""Package names by module, where they differ."""


def need(*modules: str, extra: str) -> None:
    """End the command if one of these modules is not installed; the message names the extra that installs them."""
    missing = [PACKAGES.get(module, module) for module in modules if not is_there(module)]
    if missing:
        raise UsageError(f"This command needs {' and '.join(missing)}: pip install 'odradek[{extra}]'")


def is_there(module: str) -> bool:
    """Whether a module is installed; only its parent packages are imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False  # its parent package is not installed either
