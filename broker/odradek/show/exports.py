"""Formats in which a history can be exported."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from odradek.show.history import History
from odradek.show.mermaid import mermaid
from odradek.show.perfetto import perfetto
from odradek.show.shiviz import shiviz
from odradek.show.svg import drawn
from odradek.show.transaction import of_transaction, only

__all__ = ["FORMS", "Form"]


class Form(Struct, frozen=True):
    """A format for histories."""

    ending: str
    """Suffix of file names."""
    media_type: str
    write: Callable[[Sequence[History], str | None], str | bytes]
    """Writes a transactional id, or the default of the format without one. Raises UsageError if there is no such id."""


def _all(history: History, transactional_id: str | None) -> History:
    """The steps of a transactional id, or all."""
    return history if transactional_id is None else only(history, transactional_id)


TEXT = "text/plain; charset=utf-8"
FORMS: Mapping[str, Form] = MappingProxyType(
    {
        "svg": Form(".svg", "image/svg+xml", lambda runs, tid: drawn(of_transaction(runs[0], tid))),
        "mermaid": Form(".mmd", TEXT, lambda runs, tid: mermaid(of_transaction(runs[0], tid))),
        "shiviz": Form(".shiviz", TEXT, lambda runs, tid: shiviz(*(_all(run, tid) for run in runs))),
        "perfetto": Form(".pftrace", "application/x-protobuf", lambda runs, tid: perfetto(_all(runs[0], tid))),
    }
)
"""By their names. A picture shows one transaction; logs have all of them where none is named.

ShiViz compares two runs; the others have room for the first one.
"""
