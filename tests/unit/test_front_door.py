"""`import odradek`: the driver's loop that its docstring shows, and the public names."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

import odradek
from odradek import names
from odradek.wire.messages.api_versions_response import ApiVersionsResponse
from odradek.wire.registry import ApiKey, decode

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"


def docstring() -> str:
    """The indented lines of the docstring, from the first import on."""
    lines = (odradek.__doc__ or "").splitlines()
    first = lines.index("    from collections import deque")
    last = max(at for at, line in enumerate(lines) if line.startswith("    "))
    return dedent("\n".join(lines[first : last + 1]))


def page() -> str:
    """The first block of the page."""
    found = re.search(r"```python\n(.*?)\n```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def test_both_show_the_same() -> None:
    assert docstring() == page()


@pytest.mark.parametrize("shown", [docstring, page])
def test_the_loop_answers_one_request(shown: Callable[[], str], capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(shown(), "loop.py", "exec"), {})
    answers = re.findall(r"^to connection 1 (\w+)$", capsys.readouterr().out, re.MULTILINE)
    assert 1 == len(answers)
    answer = bytes.fromhex(answers[0])
    assert len(answer) - 4 == int.from_bytes(answer[:4], "big")
    assert 7 == int.from_bytes(answer[4:8], "big")
    response = decode(ApiVersionsResponse, answer[8:], 0)
    assert ApiKey.END_TXN in {each.api_key for each in response.api_keys}


def test_all_public_names_are_there_and_imported_at_their_first_use() -> None:
    public = {*names.__all__, "__version__"}
    assert public <= {*dir(odradek)}
    assert public == {*vars(odradek)["__all__"]}
    assert {"__version__"} == {name for name in public if isinstance(getattr(odradek, name), str)}
    loaded = "import sys, odradek; print([name for name in sys.modules if name.startswith('odradek.')])"
    told = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert "[]" == told.stdout.strip()
    with pytest.raises(AttributeError, match="module 'odradek' has no attribute 'Broker'"):
        odradek.Broker  # type: ignore[attr-defined]  # noqa: B018
