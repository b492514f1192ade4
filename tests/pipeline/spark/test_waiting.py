"""The driver of an audit does without pandas and Arrow while it has a JVM."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

WAITS = """
import sys
from odradek_pipeline.spark.waiting import WAITING, are_loaded, wait
wait()
wait()  # once more makes no difference
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from odradek_pipeline.audit.result import anomalies_frame
assert not are_loaded()
assert pd.__version__.startswith("2."), "Spark asks for it"
assert not are_loaded()
{}
print(*are_loaded())
"""


def run(script: str, *words: str, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *words], cwd=cwd, capture_output=True, text=True, timeout=300, check=False
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("asks", "loaded"),
    [
        ("", ""),
        ("assert pd.Series([1, 2]).sum() == 3", "pandas"),
        ("import pandas.api.types as types; assert types.is_integer(1)", "pandas"),
        ("from pandas import DataFrame; assert len(DataFrame({'a': [1]})) == 1", "pandas"),
        ("assert pc.sum(pa.array([1, 2])).as_py() == 3", "pyarrow pyarrow.compute"),
        ("assert pc.sum([1, 2]).as_py() == 3", "pyarrow pyarrow.compute"),
        ("import pyarrow.parquet as pq; assert pq.ParquetWriter", "pyarrow pyarrow.parquet"),
        ("assert pa.Table.from_pandas(pd.DataFrame({'a': [1]})).num_rows == 1", "pandas pyarrow"),
    ],
)
def test_a_module_is_loaded_when_something_of_it_is_asked_for(asks: str, loaded: str) -> None:
    assert set(loaded.split()) <= set(run(WAITS.format(asks)).split())
    assert loaded or not run(WAITS.format(asks)).split()


AUDITS = """
import json, os, sys
from pathlib import Path
from odradek_pipeline.spark import session, waiting
end_session, told = session.end_session, []

def children():
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()

def ended(spark):
    before = len(children())
    loaded = waiting.are_loaded()
    end_session(spark)
    told.append((before, loaded, len(children())))

session.end_session = ended
from odradek.cli.main import main
try:
    sys.argv[:] = ["odradek", "audit", "logs", *sys.argv[1:], "--master", "local[1]", "--out", "out"]
    main()
finally:
    print(json.dumps(told))
"""


def test_the_jvm_of_an_audit_ends_before_pandas_is_loaded(recorded: Callable[[str], Path], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AUDITS, str(recorded("hang"))],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "hangs in orders-0 since offset 36" in done.stdout, done.stderr
    (before, loaded, after), again = json.loads(done.stdout.splitlines()[-1])
    assert (1, [], 0) == (before, loaded, after)
    assert [0, [], 0] != again, "the verdicts need pandas"
