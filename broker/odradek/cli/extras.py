"""What a plain installation lacks, said in one sentence by the command that needs it."""

from __future__ import annotations

import importlib.util

from odradek.cli.usage import UsageError

__all__ = ["is_there", "need"]

PACKAGES = {"confluent_kafka": "confluent-kafka", "opentelemetry.proto": "opentelemetry-proto"}
"""By module, where the package has another name."""


def need(*modules: str, extra: str) -> None:
    """End the command if it lacks one of these modules; the extra has them."""
    missing = [PACKAGES.get(module, module) for module in modules if not is_there(module)]
    if missing:
        raise UsageError(f"This command needs {' and '.join(missing)}: pip install 'odradek[{extra}]'")


def is_there(module: str) -> bool:
    """Whether a module is installed; nothing is imported but the packages around it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False  # nor is the package around it
