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
from dataclasses import dataclass
from pathlib import Path

from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from odradek_pipeline.access.properties import parse_properties
from odradek_pipeline.logs.files import registered

__all__ = ["connector_jars", "end_session", "spark_session"]

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
    folder = Path(os.environ.get(JARS_VARIABLE) or Path(__file__).parents[2] / "jars" / "target" / "jars")
    return sorted(str(jar) for jar in folder.glob("*.jar"))


def spark_session(
    master: str | None = None, *, name: str = "odradek", small: bool = False, scratch: Path | None = None
) -> SparkSession:
    """A session; `master` None leaves it to spark-submit. `small` spares the CPU of short jobs on a busy machine."""
    cores = _cores(master)
    for name, value in _environment(small=small, cores=cores).items():
        os.environ.setdefault(name, value)
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in _settings(small=small, cores=cores, scratch=scratch).items():
        builder = builder.config(key, value)
    with _without_noise():
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def end_session(session: SparkSession) -> None:
    """Stop a session, and its JVM where this process has started that: spark-submit is the parent of its Python."""
    gateway = SparkContext._gateway
    if gateway is None:  # it has ended
        return
    session.stop()
    jvm = getattr(gateway, "proc", None)
    if jvm is None:
        return
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    jvm.stdin.close()  # by which it is told that nobody needs it any more
    jvm.wait()


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


_MALLOC = {"MALLOC_ARENA_MAX": "2"}
"""The JVM has some hundred threads, and each would have an arena of its own."""
_MALLOC_OF_PLANNER = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_TRIM_THRESHOLD_": str(128 << 10),
    "MALLOC_MMAP_THRESHOLD_": str(128 << 10),
}
"""For a JVM that only plans: what its compiler has freed goes back to the system. By itself the C library raises both
limits as soon as something large is freed, and keeps more."""
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")
_OPTIONS_OF_ALL = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
"""Where users say how their JVMs are to run."""
_OPTIONS = "spark.driver.extraJavaOptions"
_OPTIONS_BEFORE = "spark.driver.defaultJavaOptions"
"""Spark puts these before the others, and of two that contradict each other a JVM takes the last one: so what an audit
wants stands here, and what its user wants behind it."""
_FIRST_COMPILER = " -XX:TieredStopAtLevel=1"
"""Rows go through Python's workers, and the JVM does little with each: of its time more than a third went into
compiling what then ran for seconds, and some into collecting garbage beside it (bench/README.md). What a cluster's
workers do is theirs to say."""


_FORGOTTEN = {
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "5",
    "spark.sql.codegen.cache.maxEntries": "20",
}
"""What a driver keeps of what is done: for the page of a service that lives for weeks, 100,000 tasks and 1,000 queries
with the code of each. An audit has some twenty queries and asks for none of them twice."""
_METASPACE = " -XX:MetaspaceSize=128m"
"""So much is needed for Spark's classes; to grow to it takes four collections of the whole heap."""
_YOUNG_MIB, _YOUNG_MIB_MAX = 16, 128
"""For objects that have just been made, for each core that tasks run on in this JVM, and for all of them."""
_SERIAL_CORES = 2
"""With no more of them one thread collects as fast as several do, and needs nothing for it."""


def _heap(cores: int) -> str:
    """A heap that is as large as what lives in it, up to `spark.driver.memory`: a JVM takes all that it may otherwise,
    for rows that nobody needs any more."""
    young = min(_YOUNG_MIB * (cores + 1), _YOUNG_MIB_MAX)
    return f" -Xms{young + 32}m -Xmn{young}m -XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=40"


_LOCAL = re.compile(r"local(\[(?P<threads>\d+|\*)\s*(,\s*\d+\s*)?\])?")
"""`local[2, 4]` is two threads, and four attempts at each task; `local-cluster[2,1,1024]` is another master."""

_PLANNER = (
    "-Xms24m -Xmn8m -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20 -XX:-ShrinkHeapInSteps",
    "-XX:CompileThresholdScaling=3",
    "-Dsun.reflect.inflationThreshold=2147483647",
    "-Dio.netty.allocator.maxOrder=5",
)
"""For a JVM that only plans, and whose memory is that of the machine that drives audits: a heap with little room beside
what lives in it; code is compiled once it has run three times as often as usual, for most of planning runs a few times;
no class is made for a method that is called by reflection; buffers of the network come in pieces of 256 KiB in place of
4 MiB. Each was measured (bench/README.md)."""


def _cores(master: str | None) -> int:
    """How many tasks run in the driver's JVM at a time; 0 where executors of their own run them, on other machines or,
    with `local-cluster`, on this one."""
    found = _LOCAL.fullmatch(master or "")
    if found is None:
        return 0
    threads = found["threads"] or "1"
    return (os.cpu_count() or 1) if threads == "*" else int(threads)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """What the user's own configuration of Spark says, which is left as it is."""

    defaults: dict[str, str]
    """Those of `spark-defaults.conf`."""
    arguments: str
    """Those of spark-submit, which win."""

    @classmethod
    def here(cls) -> _Chosen:
        folder = os.environ.get("SPARK_CONF_DIR") or os.path.join(_find_spark_home(), "conf")
        text = ""
        with contextlib.suppress(OSError):
            text = Path(folder, "spark-defaults.conf").read_text(errors="replace")
        return cls(parse_properties(text), os.environ.get("PYSPARK_SUBMIT_ARGS", ""))

    def has(self, key: str) -> bool:
        return key in self.defaults or re.search(rf"(^|\s){re.escape(key)}=", self.arguments) is not None

    def has_collector(self) -> bool:
        """Whether it names a garbage collector: a JVM with two does not start."""
        said = [self.arguments, *(self.defaults.get(key, "") for key in (_OPTIONS, _OPTIONS_BEFORE))]
        said += [os.environ.get(variable, "") for variable in _OPTIONS_OF_ALL]
        return any(_COLLECTOR.search(text) for text in said)


def _environment(*, small: bool, cores: int) -> dict[str, str]:
    """What the JVM that is started here has in its environment, unless its user has put something else there."""
    found = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    if cores:
        found["SPARK_LOCAL_IP"] = "127.0.0.1"
    return found | (_MALLOC if cores or small else _MALLOC_OF_PLANNER)


def _settings(*, small: bool, cores: int, scratch: Path | None) -> dict[str, str]:
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
    chosen = _Chosen.here()
    settings |= {key: value for key, value in _FORGOTTEN.items() if not chosen.has(key)}
    settings |= {f"spark.executorEnv.{name}": value for name, value in registered().items()}
    jvm = f"-Dlog4j2.configurationFile={log4j.as_uri()}"
    if small:
        collector = "Serial"
        jvm += _FIRST_COMPILER
        settings |= {
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.adaptive.enabled": "false",  # it plans anew behind every shuffle; there is nothing to gain
            "spark.driver.memory": "512m",
        }
    elif cores:
        collector = "Serial" if cores <= _SERIAL_CORES else "Parallel"
        jvm += _heap(cores) + _FIRST_COMPILER + _METASPACE
    else:
        # It plans, and little more: a machine that drives audits needs no more memory than that.
        collector = "Serial"
        jvm += _FIRST_COMPILER + " " + " ".join(_PLANNER)
        if not chosen.has("spark.driver.memory"):
            settings["spark.driver.memory"] = "512m"
    if cores:
        if not chosen.has("spark.ui.enabled"):  # else it would listen for as long as a command runs
            settings["spark.ui.enabled"] = "false"
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        settings.setdefault("spark.sql.shuffle.partitions", str(max(2, os.cpu_count() or 2)))
    if not chosen.has_collector():
        jvm += f" -XX:+Use{collector}GC"
    settings[_OPTIONS_BEFORE] = f"{jvm} {chosen.defaults.get(_OPTIONS_BEFORE, '')}".rstrip()
    jars = connector_jars()
    if jars:
        settings["spark.jars"] = ",".join(jars)
    return settings
