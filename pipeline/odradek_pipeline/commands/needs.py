"""One clear sentence where the extra is not installed."""

from __future__ import annotations

from functools import partial

from odradek.cli import extras

__all__ = ["need"]

need = partial(extras.need, extra="audit")
"""End the command if it lacks one of these modules; the extra `audit` is without Spark."""
