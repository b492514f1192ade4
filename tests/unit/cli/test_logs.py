"""What the log says of a bug, and what it says while it cannot be imported."""

from __future__ import annotations

import errno
import json

import pytest

import odradek.cli.logs
from odradek.broker import Logger
from odradek.cli.logs import make_logger

SECRET = "hunter2-hunter2"


def _log_a_bug(*, as_json: bool) -> None:
    password = SECRET[:]
    try:
        raise RuntimeError(f"of {len(password)} characters")
    except RuntimeError as error:
        make_logger(level="error", as_json=as_json).error("step_failed", exc_info=error)


@pytest.mark.parametrize("as_json", [False, True])
def test_it_shows_where_and_no_values_of_variables(*, as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    _log_a_bug(as_json=as_json)
    told = capsys.readouterr().err
    for part in ("step_failed", "RuntimeError", "of 15 characters", "_log_a_bug"):
        assert part in told
    assert SECRET not in told
    if as_json:
        assert "step_failed" == json.loads(told)["event"]


@pytest.mark.parametrize("as_json", [False, True])
def test_a_line_is_written_while_no_descriptor_is_left_to_import_the_logger(
    *, as_json: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*, as_json: bool) -> Logger:
        raise OSError(errno.EMFILE, "Too many open files", "structlog/__init__.py")

    log = make_logger(level="warning", as_json=as_json)
    with monkeypatch.context() as patched:
        patched.setattr(odradek.cli.logs, "_structlog_logger", exhausted)
        log.info("not_told")
        log.error("step_failed", node=1, exc_info=RuntimeError("a bug"))
    told = capsys.readouterr().err
    if as_json:
        assert {"level": "error", "event": "step_failed", "node": "1", "exc_info": "a bug"} == json.loads(told)
    else:
        assert "[error] step_failed node=1 exc_info=RuntimeError('a bug')\n" == told
    log.error("again", node=2)
    told = capsys.readouterr().err
    assert "again" in told
    assert "timestamp" in told if as_json else "[error" in told
