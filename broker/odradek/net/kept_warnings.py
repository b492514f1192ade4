"""A logger that also keeps its warnings: what a data directory lacks is told to the author of a test, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.broker import Logger

__all__ = ["KeptWarnings", "line_of"]


def line_of(event: str, fields: dict[str, object]) -> str:
    """A log line without its time."""
    return f"{event}{''.join(f' {name}={value}' for name, value in fields.items())}"


class KeptWarnings:
    """Passes each line on, and keeps warnings and errors as text."""

    def __init__(self, log: Logger, lines: list[str]) -> None:
        """The text goes to `lines`."""
        self._log = log
        self.lines = lines

    def debug(self, event: str, **fields: object) -> None:
        self._log.debug(event, **fields)

    def info(self, event: str, **fields: object) -> None:
        self._log.info(event, **fields)

    def warning(self, event: str, **fields: object) -> None:
        self.lines.append(line_of(event, fields))
        self._log.warning(event, **fields)

    def error(self, event: str, **fields: object) -> None:
        self.lines.append(line_of(event, fields))
        self._log.error(event, **fields)
