"""Errors in a dialect, for its author."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.cli.usage import UsageError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["DialectError"]


class DialectError(UsageError):
    """A dialect with which no broker can be started; the text is one sentence with the file, the field and the rule."""

    def __init__(self, file: Path, field: str, rule: str) -> None:
        where = f"{file.parent.name}/{file.name}"
        super().__init__(f"{where}: {field}: {rule}." if field else f"{where}: {rule}.")
        self.file = file
        self.field = field
        self.rule = rule
