"""What the log says of a bug."""

from __future__ import annotations

import json

import pytest

from odradek.logs import make_logger

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
