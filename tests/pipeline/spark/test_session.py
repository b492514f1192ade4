"""What a session of Spark says on standard error: what its JVM has to say, and not what every JVM says."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek_pipeline.spark import session

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


def test_an_audit_of_logs_parses_no_sql(recorded: Callable[[str], Path], tmp_path: Path) -> None:
    """The parser of SQL takes 10 MB of the driver's memory: columns and schemas are made of objects, not of strings."""
    classes = tmp_path / "classes.log"
    environment = os.environ | {"JDK_JAVA_OPTIONS": f"-Xlog:class+load:file={classes}"}
    command = [sys.executable, "-m", "odradek", "audit", "logs", str(recorded("hang")), "--master", "local[1]"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert "hangs in orders-0 since offset 36" in done.stdout
    loaded = classes.read_text()
    assert " org.apache.spark.sql.catalyst.parser.AbstractSqlParser " in loaded, "every session has one"
    assert " org.antlr.v4.runtime.atn." not in loaded, "it has parsed something"


def test_a_jvm_that_is_all_of_spark_compiles_little(tmp_path: Path) -> None:
    options = {
        (small, cores): session._settings(small=small, cores=cores, scratch=tmp_path)["spark.driver.defaultJavaOptions"]
        for small in (False, True)
        for cores in (0, 1, 64)
    }
    assert "-XX:TieredStopAtLevel=1" in options[False, 1]
    assert " -Xms24m -Xmn8m " in options[False, 0], "the driver of a cluster plans, and little more"
    assert " -XX:CompileThresholdScaling=3 " in options[False, 0]
    assert " -Xms64m -Xmn32m " in options[False, 1], "the heap begins small"
    assert " -Xms160m -Xmn128m " in options[False, 64]
    for said in options.values():
        assert said.count("GC") <= 1, "a JVM with two collectors does not start"


@pytest.mark.parametrize("variable", ["JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"])
def test_a_collector_that_the_user_has_chosen_is_the_only_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    def jvm() -> str:
        return session._settings(small=False, cores=4, scratch=tmp_path)["spark.driver.defaultJavaOptions"]

    monkeypatch.setenv(variable, "-Xss4m")
    assert " -XX:+UseParallelGC" in jvm()
    monkeypatch.setenv(variable, "-Xss4m -XX:+UseSerialGC")
    assert "GC" not in jvm()
    assert " -XX:TieredStopAtLevel=1" in jvm()


@pytest.mark.parametrize(
    ("master", "cores"),
    [
        ("local", 1),
        ("local[3]", 3),
        ("local[2,4]", 2),
        ("local[2, 4]", 2),
        ("local[*]", os.cpu_count()),
        ("local[*,4]", os.cpu_count()),
        ("local-cluster[2,1,1024]", 0),
        ("spark://h:1", 0),
        (None, 0),
    ],
)
def test_how_many_tasks_the_drivers_jvm_runs(master: str | None, cores: int) -> None:
    assert cores == session._cores(master)


def test_a_jvm_that_only_plans_gives_back_what_is_freed() -> None:
    planner, all_of_spark = (session._environment(small=False, cores=cores) for cores in (0, 4))
    assert "1" == planner["MALLOC_ARENA_MAX"]
    assert "131072" == planner["MALLOC_TRIM_THRESHOLD_"]
    assert "SPARK_LOCAL_IP" not in planner, "its workers are elsewhere"
    assert "2" == all_of_spark["MALLOC_ARENA_MAX"]
    assert "MALLOC_TRIM_THRESHOLD_" not in all_of_spark


def test_the_driver_of_a_cluster_is_as_its_user_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def settings() -> dict[str, str]:
        return session._settings(small=False, cores=0, scratch=tmp_path)

    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert "512m" == settings()["spark.driver.memory"]
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.memory 4g\n")
    assert "spark.driver.memory" not in settings()
    assert settings()["spark.driver.defaultJavaOptions"].endswith(" -XX:+UseSerialGC")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.ui.retainedTasks=7 pyspark-shell")
    assert "spark.ui.retainedTasks" not in settings()


@pytest.mark.parametrize("cores", [0, 2])
@pytest.mark.parametrize("key", ["spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions"])
def test_options_of_the_user_stand_behind_those_of_the_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, cores: int
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text(f"{key}=-Dsite=a -XX:+UseZGC\n")
    settings = session._settings(small=False, cores=cores, scratch=tmp_path)
    said = settings["spark.driver.defaultJavaOptions"]
    assert "spark.driver.extraJavaOptions" not in settings, "it would replace what the user says there"
    assert said.startswith("-Dlog4j2.configurationFile=")
    assert " -XX:TieredStopAtLevel=1" in said
    assert "SerialGC" not in said
    assert said.endswith(" -Dsite=a -XX:+UseZGC") is (key == "spark.driver.defaultJavaOptions")


def test_a_jvm_has_what_its_user_and_what_the_audit_wants(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.driver.extraJavaOptions -Dsite.extra=a -XX:TieredStopAtLevel=4 -XX:+UseParallelGC\n"
        "spark.driver.defaultJavaOptions -Dsite.default=b\n"
    )
    program = """
from odradek_pipeline.spark.session import spark_session
spark = spark_session("local[1]")
factory = spark._jvm.java.lang.management.ManagementFactory
print(*factory.getRuntimeMXBean().getInputArguments())
print("arenas=" + spark._jvm.System.getenv("MALLOC_ARENA_MAX"))
"""
    environment = os.environ | {"SPARK_CONF_DIR": str(tmp_path), "MALLOC_ARENA_MAX": "3"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    said = done.stdout.split()
    assert {"-Dsite.extra=a", "-Dsite.default=b", "-Xmn32m", "-XX:+UseParallelGC", "arenas=3"} < set(said)
    assert "-XX:+UseSerialGC" not in said
    assert said.index("-XX:TieredStopAtLevel=1") < said.index("-XX:TieredStopAtLevel=4"), "the last one counts"


def test_a_driver_forgets_what_is_done_unless_its_user_wants_to_see_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    for cores in (0, 2):
        assert "1000" == session._settings(small=False, cores=cores, scratch=tmp_path)["spark.ui.retainedTasks"]
    (tmp_path / "spark-defaults.conf").write_text("spark.ui.retainedTasks 5\n")
    assert "spark.ui.retainedTasks" not in session._settings(small=False, cores=0, scratch=tmp_path)
