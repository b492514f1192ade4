"""One builder of the Spark session, for commands, jobs and tests alike."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from odradek_pipeline.log_source import KafkaLogSource

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
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(KafkaLogSource)
    return session


def _settings(*, small: bool, local: bool, scratch: Path | None) -> dict[str, str]:
    folder = scratch
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="odradek-spark-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    log4j = folder / "log4j2.properties"
    log4j.write_text(_LOG4J)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    jvm = f"-Dlog4j2.configurationFile={log4j.as_uri()}"
    if small:
        jvm += " -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
        settings |= {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "512m"}
    if local:
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        settings.setdefault("spark.sql.shuffle.partitions", str(max(2, os.cpu_count() or 2)))
    settings["spark.driver.extraJavaOptions"] = jvm
    jars = connector_jars()
    if jars:
        settings["spark.jars"] = ",".join(jars)
    return settings
