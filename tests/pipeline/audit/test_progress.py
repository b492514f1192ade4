"""How far an audit is: the line and its estimate, and that both ways of an audit keep it."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.pipeline.commands.test_wrong_calls import exit_code

from odradek_pipeline.audit import lines as lines_module
from odradek_pipeline.audit import progress
from odradek_pipeline.audit.progress import HERE, OF_LINES, ON_SPARK, Progress, shown
from odradek_pipeline.jobs.audit_events import audit_events
from odradek_pipeline.jobs.audit_history import audit_history
from odradek_pipeline.jobs.audit_logs import audit_logs
from odradek_pipeline.jobs.audit_logs_spark import audit_logs_on_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Recorded = Callable[[str], Path]


class Clock:
    """Seconds that pass when a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_estimate_goes_by_what_is_done() -> None:
    lines: list[str] = []
    clock = Clock()
    of = Progress({"reading": 60, "checking": 40}, lines.append, clock)
    of.step("reading")
    assert ["1 of 2: reading, 0%"] == lines
    assert of.left_s() is None
    clock.now = 30
    of.reading(1_500_000_000, 3_000_000_000)
    assert "1 of 2: reading, 1.5 GB of 3 GB, 30%, about 70 s left" == lines[-1]
    of.at(0.1, "less than before")  # another stage of the same step begins anew
    assert 70 == of.left_s()
    of.step("checking")
    assert "2 of 2: checking, 60%, about 20 s left" == lines[-1]
    clock.now = 600
    of.at(0.25, "1 of 4 tasks")
    assert "2 of 2: checking, 1 of 4 tasks, 70%, about 4 min left" == lines[-1]
    of.at(1.0, "4 of 4 tasks")
    assert 0 == of.left_s()


def test_an_audit_without_spark_says_each_byte_it_has_read(recorded: Recorded) -> None:
    lines: list[str] = []
    of = Progress(HERE, lines.append, Clock())
    result = audit_logs([recorded("tv2")], progress=of)
    assert lines[0].startswith("1 of 3: reading")
    assert any(f"reading, {result.bytes / 1000:.3g} KB of {result.bytes / 1000:.3g} KB, 70%" in line for line in lines)
    assert [name for name in HERE if any(name in line for line in lines)] == list(HERE)
    done = [float(line.partition("%")[0].rpartition(" ")[2]) for line in lines]
    assert sorted(done) == done


def test_an_audit_on_spark_counts_tasks(
    spark: SparkSession, recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "POLL_S", 0.01)
    lines: list[str] = []
    of = Progress(ON_SPARK, lines.append, Clock())
    audit_logs_on_spark(spark, [recorded("tv2")], tmp_path / "out", progress=of)
    assert [name for name in ON_SPARK if any(name in line for line in lines)] == list(ON_SPARK)
    assert any(" tasks, " in line for line in lines)
    done = [float(line.partition("%")[0].rpartition(" ")[2]) for line in lines]
    assert sorted(done) == done


def test_it_is_said_where_it_is_asked_for(recorded: Recorded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["audit", "logs", recorded("tv2"), "--master", "none"]
    for more, says in (([], False), (["--progress"], True)):
        said = io.StringIO()
        monkeypatch.setattr(sys, "stderr", said)
        assert 0 == exit_code(*words, *more)
        assert says == said.getvalue().startswith("1 of 3: reading, 0%\n")


def test_on_a_terminal_one_line_is_written_over() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    with shown(HERE, out=out) as of:
        assert of is not None
        of.step("reading")
    assert "\r\x1b[K1 of 3: reading, 0%\r\x1b[K" == out.getvalue()
    with shown(HERE, out=io.StringIO()) as nobody:
        assert nobody is None


def test_audits_of_files_say_how_much_of_them_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Histories and event logs, one behind the other, one of them compressed; what was done stays done."""
    monkeypatch.setattr(lines_module, "LINES_BETWEEN", 2)
    operation = {"type": "ok", "process": 0, "f": "txn", "value": [["send", "orders-0", [1, 2]]]}
    event = {"ts_ns": 1, "kind": "request", "api": "Produce", "version": 11, "client_id": "shop"}
    for audit, line in ((audit_history, operation), (audit_events, event)):
        text = "".join(json.dumps({**line, "time": at}) + "\n" for at in range(12)).encode()
        plain, packed = tmp_path / "plain.jsonl", tmp_path / "packed.jsonl.gz"
        plain.write_bytes(text)
        packed.write_bytes(gzip.compress(text))
        said: list[str] = []
        audit([plain, packed], progress=Progress(OF_LINES, said.append, Clock()))
        assert [name for name in OF_LINES if any(name in line for line in said)] == list(OF_LINES)
        done = [float(line.partition("%")[0].rpartition(" ")[2]) for line in said]
        assert sorted(done) == done
        assert 90 == done[-1]
        assert 4 < len(set(done)), "it is said more than once in each file"


@pytest.mark.parametrize("name", ["history", "events"])
def test_it_is_said_of_files_where_it_is_asked_for(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "file.jsonl"
    path.write_text(
        '{"ts_ns": 1, "kind": "request", "time": 1, "type": "ok", "process": 0, "f": "poll", "value": []}\n'
    )
    for more, says in (([], ""), (["--progress"], "1 of 2: reading, 0%\n")):
        said = io.StringIO()
        monkeypatch.setattr(sys, "stderr", said)
        assert 0 == exit_code("audit", name, path, *more)
        assert said.getvalue().startswith(says)
        assert bool(more) == bool(said.getvalue())
