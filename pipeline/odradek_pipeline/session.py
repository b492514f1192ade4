"""One builder of the Spark session, for commands, jobs and tests alike."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from odradek_pipeline.files import registered

__all__ = ["connector_jars", "spark_session"]

_LOG4J = """\
rootLogger.level=error
rootLogger.appenderRef.stderr.ref=console
appender.console.type=Console
appender.console.name=console
appender.console.target=SYSTEM_ERR
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d{HH:mm:ss} %p %c{1}: %m%n
"""

JARS_VARIABLE = "ODRADEK_PIPELINE_JARS"


def connector_jars() -> list[str]:
    """The jars of Spark's Kafka connector: from $ODRADEK_PIPELINE_JARS, or where `make` puts them in a checkout."""
    folder = Path(os.environ.get(JARS_VARIABLE) or Path(__file__).parents[1] / "jars" / "target" / "jars")
    return sorted(str(jar) for jar in folder.glob("*.jar"))


def spark_session(
    master: str | None = None, *, name: str = "odradek", small: bool = False, scratch: Path | None = None
) -> SparkSession:
    """A session; `master` None leaves it to spark-submit. `small` spares the CPU of short jobs on a busy machine."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if master is not None and master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in _settings(
        small=small, local=bool(master and master.startswith("local")), scratch=scratch
    ).items():
        builder = builder.config(key, value)
    with _without_noise():
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


_NOISE = (b"WARNING: Using incubator modules", b'Setting default log level to "', b"To adjust logging level use ")
"""What every JVM that Spark starts says, and nobody can change."""
_CHUNK = 1 << 16


@contextlib.contextmanager
def _without_noise() -> Iterator[None]:
    """A JVM that is started here writes to standard error through a thread that leaves out what says nothing."""
    sys.stderr.flush()
    ours = os.dup(2)
    out, into = os.pipe()
    threading.Thread(target=_forward, args=(out, os.dup(ours)), name="errors of the JVM", daemon=True).start()
    os.dup2(into, 2)
    os.close(into)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(ours, 2)
        os.close(ours)


def _forward(out: int, to: int) -> None:
    """Line by line, until whoever writes has ended."""
    rest = b""
    with contextlib.suppress(OSError):
        while chunk := os.read(out, _CHUNK):
            *lines, rest = (rest + chunk).split(b"\n")
            kept = [line + b"\n" for line in lines if not line.startswith(_NOISE)]
            os.write(to, b"".join(kept))
        os.write(to, rest)
    os.close(out)
    os.close(to)


_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")
_OPTIONS_OF_ALL = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
"""Where users say how their JVMs are to run."""
_FIRST_COMPILER = " -XX:TieredStopAtLevel=1"
"""Rows go through Python's workers, and the JVM does little with each: of its time more than a third went into
compiling what then ran for seconds, and some into collecting garbage beside it (bench/README.md). What a cluster's
workers do is theirs to say."""


def _is_chosen(key: str) -> bool:
    """Whether the user's own configuration of Spark says something of a key."""
    folder = os.environ.get("SPARK_CONF_DIR") or os.path.join(os.environ.get("SPARK_HOME", ""), "conf")
    said = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    with contextlib.suppress(OSError):
        said += Path(folder, "spark-defaults.conf").read_text(errors="replace")
    return re.search(rf"(?m)(^|\s){re.escape(key)}[\s=:]", said) is not None


def _collector(name: str) -> str:
    """The choice of a garbage collector, unless the user has made one: a JVM with two does not start."""
    chosen = any(_COLLECTOR.search(os.environ.get(variable, "")) for variable in _OPTIONS_OF_ALL)
    return "" if chosen else f" -XX:+Use{name}GC"


def _settings(*, small: bool, local: bool, scratch: Path | None) -> dict[str, str]:
    folder = scratch
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="odradek-spark-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    log4j = folder / "log4j2.properties"
    log4j.write_text(_LOG4J)
    settings = {
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    settings |= {f"spark.executorEnv.{name}": value for name, value in registered().items()}
    jvm = f"-Dlog4j2.configurationFile={log4j.as_uri()}"
    if small:
        jvm += _collector("Serial") + _FIRST_COMPILER
        settings |= {
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.adaptive.enabled": "false",  # it plans anew behind every shuffle; there is nothing to gain
            "spark.driver.memory": "512m",
        }
    elif local:
        jvm += _collector("Parallel") + _FIRST_COMPILER
    if local:
        if not _is_chosen("spark.ui.enabled"):  # else it would listen for as long as a command runs
            settings["spark.ui.enabled"] = "false"
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        settings.setdefault("spark.sql.shuffle.partitions", str(max(2, os.cpu_count() or 2)))
    settings["spark.driver.extraJavaOptions"] = jvm
    jars = connector_jars()
    if jars:
        settings["spark.jars"] = ",".join(jars)
    return settings
