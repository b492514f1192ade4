"""docs/recipes/nightly.md: its script, its acknowledgement, spark-submit, and what the DAG of Airflow calls."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "recipes" / "nightly.md"
BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
Recorded = Callable[[str], Path]


def blocks() -> list[tuple[str, str]]:
    return [(language, code) for language, code in BLOCK.findall(PAGE.read_text())]


def block(word: str) -> str:
    (found,) = (code for _, code in blocks() if word in code and "mail" not in code)
    return found


def run(code: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    there = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{there}:{os.environ['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"} | more
    return subprocess.run(
        ["sh", "-c", code], cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.fixture
def night(recorded: Recorded, tmp_path: Path) -> dict[str, str]:
    """A snapshot with one broker, a folder for the state, and one for metrics."""
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    shutil.move(recorded("hang"), snapshot / "broker-1")
    for name in ("state", "metrics"):
        (tmp_path / name).mkdir()
    return {"SNAPSHOT": str(snapshot), "STATE": str(tmp_path / "state"), "METRICS": str(tmp_path / "metrics")}


def test_two_nights_and_an_acknowledgement(night: dict[str, str], tmp_path: Path) -> None:
    script = block("# audit.sh")
    first = run(script, tmp_path, **night)
    assert (1, "") == (first.returncode, first.stdout), first.stderr
    alerts: dict[str, Any] = json.loads((tmp_path / "state" / "alerts.json").read_text())
    (one,) = alerts["incidents"]
    assert {"id", "severity", "incident", "what", "blocks", "run"} <= one.keys()
    assert "odradek_audit_exit_code 1\n" in (tmp_path / "metrics" / "audit.prom").read_text()
    assert ["audit.prom"] == sorted(os.listdir(tmp_path / "metrics"))
    acknowledged = run(block("audit ack"), tmp_path, **night, ID=one["id"])
    assert 0 == acknowledged.returncode, acknowledged.stderr
    second = run(script, tmp_path, **night)
    assert 0 == second.returncode, second.stderr
    assert "odradek_audit_exit_code 0\n" in (tmp_path / "metrics" / "audit.prom").read_text()
    shutil.rmtree(tmp_path / "snapshot")
    assert 2 == run(script, tmp_path, **night).returncode


def test_what_airflow_calls_is_the_script() -> None:
    """Airflow itself is not installed here: the DAG is read, not run."""
    tree = ast.parse(block("# audit_dag.py"))
    (call,) = (
        one for one in ast.walk(tree) if isinstance(one, ast.Call) and getattr(one.func, "id", "") == "BashOperator"
    )
    given = {one.arg: one.value for one in call.keywords}
    assert 3 == ast.literal_eval(given["skip_on_exit_code"])
    command = ast.literal_eval(given["bash_command"])
    (cron,) = (code for _, code in blocks() if "mail" in code)
    assert command in cron
    assert command.endswith("/audit.sh")


def test_spark_submit(night: dict[str, str], tmp_path: Path) -> None:
    done = run(block("spark-submit"), tmp_path, **night, CLUSTER="local[1]")
    assert 1 == done.returncode, done.stderr[-2000:]
    assert "hanging-transaction: A transaction of producer 1" in done.stdout
