"""Logs in HDFS: a name node and a data node of Hadoop itself, read where they are over WebHDFS.

`hdfs://` takes the same way through Arrow, and needs Hadoop's native library, which no registry of packages has.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import pytest
from tests.clients.toolchain import JAVA, resolved
from tests.examples import NIGHTLY

from odradek_pipeline.jobs.audit_logs import audit_logs
from odradek_pipeline.jobs.audit_logs_spark import audit_logs_on_spark
from odradek_pipeline.logs.files import path_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odradek_pipeline.audit.result import Result

pytestmark = pytest.mark.skipif(not NIGHTLY, reason="starts Hadoop, whose jar has 56 MB: a nightly run plays it")

NODES = Path(__file__).parents[1] / "hdfs"
QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m")
START_S = 300


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Of the name node's HTTP."""
    pyspark = find_spec("pyspark")
    assert pyspark is not None
    assert pyspark.origin is not None
    jars = resolved(NODES / "pom.xml", {})
    path = f"{Path(pyspark.origin).parent}/jars/*:{jars}/*"
    folder = tmp_path_factory.mktemp("hdfs")
    command = [*JAVA, *QUICK, "-cp", path, str(NODES / "HdfsNodes.java"), str(folder / "nodes")]
    with (folder / "errors").open("wb") as errors:
        nodes = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert nodes.stdin is not None
    assert nodes.stdout is not None
    try:
        said = nodes.stdout.readline().split()
        assert said[:1] == ["ready"], (folder / "errors").read_text()[-2000:]
        yield int(said[1])
        nodes.stdin.close()
        assert 0 == nodes.wait(START_S)
    finally:
        nodes.kill()
        nodes.wait()
        nodes.stdout.close()


@pytest.fixture
def placed(port: int, recorded: Callable[[str], Path]) -> Iterator[tuple[Path, Path]]:
    """A directory in which a transaction hangs: here, and in HDFS."""
    here = recorded("hang")
    system = fsspec.filesystem("webhdfs", host="127.0.0.1", port=port)
    system.put(str(here), "/logs/broker-1", recursive=True)
    try:
        yield here, path_of(f"webhdfs://127.0.0.1:{port}/logs/broker-1")
    finally:
        system.rm("/logs", recursive=True)


def told(result: Result) -> tuple[list[tuple[Any, ...]], list[tuple[int, str, str]], int]:
    names = ["anomaly", "severity", "topic", "partition", "offset", "end_offset", "producer_id"]
    rows = sorted(result.anomalies[names].itertuples(index=False, name=None))
    return rows, [(one.position, one.problem, one.severity) for one in result.problems], result.bytes


def test_an_audit_finds_there_what_it_finds_here(placed: tuple[Path, Path]) -> None:
    here, there = placed
    expected = audit_logs([here])
    assert ["hanging-transaction"] == (
        expected.incidents["incident"].tolist() if expected.incidents is not None else []
    )
    assert told(expected) == told(audit_logs([there]))


def test_workers_of_spark_read_it_too(placed: tuple[Path, Path], spark: SparkSession, tmp_path: Path) -> None:
    here, there = placed
    assert told(audit_logs([here])) == told(audit_logs_on_spark(spark, [there], tmp_path / "out", range_bytes=4096))
