"""What the tests of the pipeline share; without its extra they are skipped, unless CI asks for them."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).parent / "data"
INSTALLED = all(find_spec(module) for module in ("moto", "numpy", "pandas", "pyarrow", "pyspark"))

if not INSTALLED:
    if os.environ.get("ODRADEK_PIPELINE_TESTS"):
        raise RuntimeError("what requirements/pipeline.txt names is not installed")
    collect_ignore_glob = ["test_*.py", "*/test_*.py"]


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[[str], Path]:
    """A fresh copy of a recorded log directory of a real Kafka 4.4: tv1, tv2 or hang."""

    def unpack(name: str) -> Path:
        with tarfile.open(DATA / f"{name}.tar.gz") as archive:
            archive.extractall(tmp_path / name, filter="data")
        return tmp_path / name

    return unpack


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One small Spark session for all tests."""
    from odradek_pipeline.spark.log_source import KafkaLogSource
    from odradek_pipeline.spark.session import spark_session

    session = spark_session("local[2]", name="odradek tests", small=True, scratch=tmp_path_factory.mktemp("spark"))
    session.dataSource.register(KafkaLogSource)
    yield session
    session.stop()
