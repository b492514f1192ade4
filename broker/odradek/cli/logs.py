"""The log of the process: structlog, as text or JSON lines, on standard error."""

from __future__ import annotations

import logging
import sys
from functools import cached_property
from typing import Any, cast

import msgspec

from odradek.broker import Logger

__all__ = ["LEVELS", "make_logger"]

LEVELS = ("debug", "info", "warning", "error")


def make_logger(*, level: str = "info", as_json: bool = False) -> Logger:
    """A logger for lines at or above a level; lines below it cost next to nothing.

    Raises ValueError for an unknown level; its text is one clear sentence.
    """
    if level not in LEVELS:
        raise ValueError(f"A log level is one of {', '.join(LEVELS)}, not {level!r}.")
    return _DeferredLogger(level=level, as_json=as_json)


class _DeferredLogger:
    """Creates the real logger at the first line: its import takes longer than the rest of a start without log lines."""

    def __init__(self, *, level: str, as_json: bool) -> None:
        self._level = level
        self._as_json = as_json
        self._enabled = LEVELS[LEVELS.index(level) :]

    def get_effective_level(self) -> int:
        """The lowest level that is written, as structlog's loggers return it."""
        return getattr(logging, self._level.upper())  # type: ignore[no-any-return]

    def opened(self) -> Logger:
        """A logger without a level of its own: a broker sets one for each of its loggers (BROKER_LOGGER)."""
        return self._log

    @cached_property
    def _log(self) -> Logger:
        return _structlog_logger(as_json=self._as_json)

    def debug(self, event: str, **fields: Any) -> None:
        if "debug" in self._enabled:
            self._write("debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        if "info" in self._enabled:
            self._write("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        if "warning" in self._enabled:
            self._write("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._write("error", event, fields)

    def _write(self, level: str, event: str, fields: dict[str, object]) -> None:
        try:
            log = self._log
        except OSError:  # all file descriptors are in use; the next line tries again
            print(_plain_line(level, event, fields, as_json=self._as_json), file=sys.stderr)
            return
        ways = {"debug": log.debug, "info": log.info, "warning": log.warning, "error": log.error}
        ways[level](event, **fields)


def _plain_line(level: str, event: str, fields: dict[str, object], *, as_json: bool) -> str:
    """Return the text of a log line, without any import: structlog cannot be imported without a file descriptor."""
    if as_json:
        told = {name: str(value) for name, value in fields.items()}
        return msgspec.json.encode({**told, "level": level, "event": event}).decode()
    return f"[{level}] {event}{''.join(f' {name}={value!r}' for name, value in fields.items())}"


def _structlog_logger(*, as_json: bool) -> Logger:
    import structlog

    processors: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # Without the values of variables: they may contain passwords and tokens, and rendering them takes seconds.
    if as_json:
        told = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        processors += [structlog.processors.ExceptionRenderer(told), structlog.processors.JSONRenderer()]
    else:
        plain = structlog.dev.plain_traceback
        processors.append(structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain))
    return cast(
        "Logger",
        structlog.wrap_logger(
            structlog.PrintLogger(sys.stderr),
            processors=processors,
            wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
            cache_logger_on_first_use=True,
        ),
    )
