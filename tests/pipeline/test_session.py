"""What a session of Spark says on standard error: what its JVM has to say, and not what every JVM says."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from odradek_pipeline import session

SAID = b"""\
WARNING: Using incubator modules: jdk.incubator.vector
Setting default log level to "WARN".
21:00:00 ERROR Executor: disk full
To adjust logging level use sc.setLogLevel(newLevel).
no end of line"""


def test_only_noise_is_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    before = set(threading.enumerate())  # among them may be one of a JVM that another test has started, and that lives
    with session._without_noise():
        child = subprocess.Popen(
            [sys.executable, "-c", "import os, sys; os.write(2, sys.stdin.buffer.read())"], stdin=subprocess.PIPE
        )
        print("ours", file=sys.stderr, flush=True)
    assert child.stdin is not None
    child.stdin.write(SAID)  # it lives on, as a JVM does, and goes on to write through the thread
    child.stdin.close()
    assert 0 == child.wait(30)
    for thread in set(threading.enumerate()) - before:
        thread.join(30)
        assert not thread.is_alive()
    os.write(2, b"ours again\n")
    said = capfd.readouterr().err
    assert "ours\n" in said
    assert "21:00:00 ERROR Executor: disk full\nno end of line" in said
    assert said.endswith("ours again\n")
    assert not any(word in said for word in ("incubator", "default log level", "adjust"))


def test_an_audit_on_spark_says_nothing_on_standard_error(tmp_path: Path) -> None:
    (tmp_path / "logs" / "t-0").mkdir(parents=True)
    (tmp_path / "logs" / "t-0" / f"{0:020}.log").write_bytes(b"")
    command = [sys.executable, "-m", "odradek", "audit", "logs", "logs", "--master", "local[1]", "--out", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert "" == done.stderr
    assert "logs: ok" in done.stdout


def test_a_jvm_that_is_all_of_spark_compiles_little(tmp_path: Path) -> None:
    options = {
        (small, local): session._settings(small=small, local=local, scratch=tmp_path)["spark.driver.extraJavaOptions"]
        for small in (False, True)
        for local in (False, True)
    }
    assert "-XX:TieredStopAtLevel=1" in options[False, True]
    assert "-XX:" not in options[False, False], "the driver of a cluster is as its user says"
    for said in options.values():
        assert said.count("GC") <= 1, "a JVM with two collectors does not start"


@pytest.mark.parametrize("variable", ["JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"])
def test_a_collector_that_the_user_has_chosen_is_the_only_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    def jvm() -> str:
        return session._settings(small=False, local=True, scratch=tmp_path)["spark.driver.extraJavaOptions"]

    monkeypatch.setenv(variable, "-Xss4m")
    assert " -XX:+UseParallelGC" in jvm()
    monkeypatch.setenv(variable, "-Xss4m -XX:+UseSerialGC")
    assert "GC" not in jvm()
    assert " -XX:TieredStopAtLevel=1" in jvm()
