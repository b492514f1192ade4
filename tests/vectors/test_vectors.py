"""Every message and record batch that Kafka 4.4's own classes wrote, read and written by ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.tools.codec_check import main

DATA = Path(__file__).parent / "data"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), [("vectors-dev.jsonl.gz", 6385), ("batches-dev.jsonl.gz", 439)])
def test_all_pass(name: str, count: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main([str(DATA / name)]), capsys.readouterr().out
    assert f"{count} passed, 0 failed\n" == capsys.readouterr().out
