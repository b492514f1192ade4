"""Input that is not as it should be, by both ways of an audit: the exit code, one sentence, and never a trace."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from pyiceberg.table import StaticTable
from tests.pipeline.commands.test_wrong_calls import called, exit_code
from tests.pipeline.corpus.__main__ import unpack
from tests.pipeline.corpus.edit import Log

from odradek_pipeline.commands import audits as audit_commands
from odradek_pipeline.logs.summary import scan_directories

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Damage = Callable[[Path], object]
LOG = f"{0:020}.log"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands write to the folder `audit` if they are told no other."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(params=["none", "local[2]"])
def master(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways; that on Spark in the session of all tests, which is not to be stopped."""
    if request.param == "none":
        return "none"
    spark: SparkSession = request.getfixturevalue("spark")

    @contextlib.contextmanager
    def session(master: str, *, name: str) -> Iterator[SparkSession]:
        from odradek_pipeline.commands.preflight import spark_troubles

        with spark_troubles():
            yield spark

    monkeypatch.setattr(audit_commands, "_session", session)
    monkeypatch.setattr("odradek_pipeline.spark.session.end_session", lambda session: None)
    return str(request.param)


def audit(directory: Path, master: str, *words: object, also: Iterable[str] = ()) -> tuple[int, dict[str, Any], str]:
    """The exit code, what the summary says, and what was printed."""
    said = io.StringIO()
    with redirect_stdout(said):
        code = exit_code("audit", "logs", directory, *also, "--master", master, "--out", "out", *words)
    return code, json.loads(Path("out/summary.json").read_text()), said.getvalue()


def truncated(name: str, kept: float) -> Damage:
    """Only the first part of a file."""

    def damage(directory: Path) -> None:
        path = directory / name
        os.truncate(path, int(path.stat().st_size * kept))

    return damage


def removed(name: str) -> Damage:
    """Without what there was."""
    return lambda directory: (
        shutil.rmtree(directory / name) if (directory / name).is_dir() else (directory / name).unlink()
    )


def half(directory: Path) -> None:
    """A copy that broke off: the last partitions are not there, one file is there in part."""
    for name in ("orders-1", "orders-2"):
        shutil.rmtree(directory / name)
    truncated(f"orders-0/{LOG}", 0.5)(directory)


def coordinators(directory: Path) -> None:
    """The partition of the coordinators' log that has anything."""
    path = max(directory.glob(f"__transaction_state-*/{LOG}"), key=lambda one: one.stat().st_size)
    os.truncate(path, int(path.stat().st_size * 0.4))


def second_half(directory: Path) -> None:
    """In a partition of several segments the copy of one in the middle broke off."""
    path = Log(directory.parent, "orders-0").segments[1]
    os.truncate(path, path.stat().st_size // 2)


def noise(name: str) -> Damage:
    """Bytes of something else under the name of a file."""
    return lambda directory: (directory / name).write_bytes(b"\x89PNG" + bytes(range(256)) * 8)


STOPPED, MANY = "java_level_2_clean_stop", "deleted_records"
DAMAGED: dict[str, tuple[str, Damage, str]] = {
    "a segment that was cut": (STOPPED, truncated(f"orders-0/{LOG}", 0.7), "lost-tail"),
    "a segment of no bytes": (STOPPED, truncated(f"orders-0/{LOG}", 0), "lost-tail"),
    "a segment that is something else": (STOPPED, noise(f"orders-0/{LOG}"), "damaged-segment"),
    "a directory that was copied in half": (STOPPED, half, "missing-partition"),
    "a segment in the middle that was copied in half": (MANY, second_half, "missing-segment|damaged-segment"),
    "the coordinators' log cut": (STOPPED, coordinators, "lost-tail|damaged-segment"),
    "the metadata log cut": (STOPPED, truncated(f"__cluster_metadata-0/{LOG}", 0.5), "damaged-segment|~half-written"),
    "an index cut": (STOPPED, truncated(f"orders-0/{0:020}.timeindex", 0.5), ""),
    "checkpoints of something else": (STOPPED, noise("replication-offset-checkpoint"), "bad-checkpoint"),
    "epochs of something else": (
        STOPPED,
        noise("orders-0/leader-epoch-checkpoint"),
        "bad-epoch-checkpoint|bad-checkpoint",
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_input_is_bad_and_no_trace(tmp_path: Path, master: str, name: str) -> None:
    """Nothing is called ok without having looked: what is not whole is told, and the code is 1."""
    base, damage, expected = DAMAGED[name]
    directory = unpack(base, tmp_path) / "broker-1"
    damage(directory)
    code, summary, said = audit(directory, master)
    assert "Traceback" not in said
    if not expected:
        assert 0 == code
        return
    assert (1, "bad") == (code, summary["verdict"])
    assert set(expected.split("|")) & set(summary["incidents"]), summary["incidents"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--tables", "avro"], "There are no tables of the kind avro: they are parquet, partitioned, iceberg."),
        (
            ["--tables", "iceberg", "--out", "s3://b/p"],
            "Iceberg's tables name their files by whole paths: --out has to ",
        ),
        (["--state", "other"], "other is of another cluster: somebody's, not "),
        (["--state", "full"], "full is no memory of audits: it has other files."),
        (["--state", "file"], "file cannot be a memory of audits: File exists."),
        (["--topic", "nope"], "There is no topic nope in these directories."),
        (["--since", "2h", "--until", "3h"], "Nothing lies between 2h and 3h"),
        (["--out", "file"], "file cannot be a folder for tables"),
    ],
)
def test_wrong_calls_end_with_one_sentence(tmp_path: Path, master: str, words: list[str], sentence: str) -> None:
    for folder in ("other", "full"):
        (tmp_path / folder).mkdir()
    (tmp_path / "other" / "memory.json").write_text('{"clusters": ["somebody\'s"]}')
    (tmp_path / "full" / "photo").touch()
    (tmp_path / "file").touch()
    directory = unpack(STOPPED, tmp_path) / "broker-1"
    # Spark has been told whole paths.
    said = called("audit", "logs", directory, "--master", master, *words).removeprefix(f"{tmp_path}/")
    assert said.startswith(sentence)
    assert not (tmp_path / "audit" / "summary.json").exists()


@pytest.mark.parametrize("what", ["absent", "empty", "file"])
def test_nothing_to_read(tmp_path: Path, master: str, what: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    sentence = {"absent": "There is no ", "empty": "There is no partition in ", "file": ""}[what]
    assert called("audit", "logs", tmp_path / what, "--master", master).startswith(sentence)
    assert called("audit", "all", "--logs", tmp_path / what, "--master", master).startswith(sentence)


def test_partitioned_tables(tmp_path: Path, master: str) -> None:
    """The same rows, in folders that name topic and partition; a report reads the rest as ever."""
    directory = unpack(STOPPED, tmp_path) / "broker-1"
    plain = audit(directory, master)[1]
    rows = pd.read_parquet("out/log_txns.parquet")
    assert Path("out/log_txns.parquet").is_dir() == (master != "none")
    for _ in range(2):  # over other tables, and over its own
        summary = audit(directory, master, "--tables", "partitioned")[1]
        assert {**plain, "seconds": 0} == {**summary, "seconds": 0}
        for name in ("log_txns", "sequences"):
            folders = {path.parent.relative_to(f"out/{name}.parquet") for path in Path("out").rglob("*.parquet")
                       if path.is_file() and f"{name}.parquet" in path.parts}  # fmt: skip
            assert Path("topic=orders/partition=0") in folders
        found = pd.read_parquet("out/log_txns.parquet")
        key = ["topic", "partition", "producer_id", "first_offset"]
        found = found.astype({name: rows[name].dtype for name in rows.columns})[list(rows.columns)]
        assert rows.sort_values(key, ignore_index=True).equals(found.sort_values(key, ignore_index=True))
    assert 0 == exit_code("report", "out")
    audit(directory, master)
    assert rows.columns.tolist() == pd.read_parquet("out/log_txns.parquet").columns.tolist()


def test_iceberg_tables(tmp_path: Path, master: str) -> None:
    """Each audit is a snapshot of them; the hint leads to the newest, and its files are not the next audit's."""
    directory = unpack(STOPPED, tmp_path) / "broker-1"
    audit(directory, master, "--tables", "iceberg")
    first = iceberg("log_txns")
    rows = first.scan().to_pandas()
    assert rows_of(pd.read_parquet("out/log_txns.parquet")) == rows_of(rows) != []
    names = {path.stem for path in Path("out").glob("*.parquet")}
    assert names == {path.name for path in Path("out/iceberg/audit").iterdir()}
    assert 0 == len(iceberg("anomalies").scan().to_pandas())
    (before,) = first.snapshots()

    shutil.rmtree(directory / "orders-0")
    audit(directory, master, "--tables", "iceberg")
    newest = iceberg("log_txns")
    less = rows_of(newest.scan().to_pandas())
    assert (
        rows_of(pd.read_parquet("out/log_txns.parquet")) == less == [row for row in rows_of(rows) if row[:2] != ORDERS]
    )
    assert rows_of(rows) == rows_of(newest.scan(snapshot_id=before.snapshot_id).to_pandas())
    assert newest.schema().column_names == list(pd.read_parquet("out/log_txns.parquet").columns)


def test_iceberg_tables_that_were_moved_are_told(tmp_path: Path) -> None:
    directory = unpack(STOPPED, tmp_path) / "broker-1"
    audit(directory, "none", "--tables", "iceberg")
    Path("out").rename("elsewhere")
    said = called("audit", "logs", directory, "--master", "none", "--tables", "iceberg", "--out", "elsewhere")
    assert said.startswith(f"The Iceberg tables in {tmp_path}/elsewhere/iceberg cannot be gone on with: ")
    assert said.endswith("They stay where they were made; name another --out, or remove the folder.")
    Path("elsewhere/iceberg/catalog.db").write_bytes(b"no catalog")
    said = called("audit", "logs", directory, "--master", "none", "--tables", "iceberg", "--out", "elsewhere")
    assert "cannot be gone on with: file is not a database." in said


ORDERS = ("orders", 0)


def iceberg(name: str) -> StaticTable:
    """The newest version of a table, as its hint says."""
    folder = Path("out/iceberg/audit", name, "metadata").resolve()
    version = (folder / "version-hint.text").read_text()
    return StaticTable.from_metadata((folder / f"v{version}.metadata.json").as_uri())


def rows_of(frame: pd.DataFrame) -> list[tuple[object, ...]]:
    return sorted(
        (row.topic, int(row.partition), int(row.producer_id), int(row.first_offset)) for row in frame.itertuples()
    )


@pytest.mark.parametrize(
    "named",
    [
        ("{0}", "{0}"),
        ("{0}", "{0}/"),
        ("{0}", "{0}/../broker-1"),
        ("{0}", "{0}/orders-0"),
        ("{0}/orders-0", "{0}"),
        ("{0}", "link"),
        ("link/orders-0", "{0}", "links"),
    ],
)
def test_a_directory_that_is_named_twice_is_looked_at_once(tmp_path: Path, named: tuple[str, ...]) -> None:
    """By whatever path, or inside another that is named: there is one, and it is whole."""
    directory = with_links(tmp_path)
    more = [one.format(directory) for one in named]
    assert of_one(audit(directory, "none")) == of_one(audit(Path(more[0]), "none", also=more[1:]))
    alone, again = (scan_directories(paths).partitions for paths in ([directory], more))
    assert [(row.topic, row.partition, row.batches) for row in alone] == [
        (row.topic, row.partition, row.batches) for row in again
    ]


def test_on_spark_too_and_by_its_source(tmp_path: Path, spark: SparkSession) -> None:
    from odradek_pipeline.jobs.audit_logs_spark import audit_logs_on_spark
    from odradek_pipeline.spark.reading import read_logs

    directory = with_links(tmp_path)
    twice = [directory / "orders-0", directory, tmp_path / "link", tmp_path / "links" / "orders-0"]
    result = audit_logs_on_spark(spark, twice, tmp_path / "out")
    assert (False, []) == (result.is_bad, result.problems)
    assert read_logs(spark, [directory]).count() == read_logs(spark, twice).count()


def with_links(folder: Path) -> Path:
    """A log directory, a link to it, and a folder with a link to one of its partitions."""
    directory = unpack(STOPPED, folder) / "broker-1"
    (folder / "link").symlink_to(directory)
    (folder / "links").mkdir()
    (folder / "links" / "orders-0").symlink_to(directory / "orders-0")
    return directory


def of_one(audited: tuple[int, dict[str, Any], str]) -> tuple[int, dict[str, Any]]:
    """What is the same of two audits."""
    return audited[0], {**audited[1], "seconds": 0}
