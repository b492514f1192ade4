"""Log directories in an object store: an S3 server on loopback, and what a copy of it fetches again."""

from __future__ import annotations

import io
import json
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer
from tests.pipeline.test_wrong_calls import called, exit_code

from odradek.cli.usage import UsageError
from odradek_pipeline.jobs.audit_logs import audit_logs
from odradek_pipeline.stores import fetched, is_far, placed

Recorded = Callable[[str], Path]
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true"}


class Store:
    """A bucket."""

    def __init__(self, endpoint: str) -> None:
        from pyarrow.fs import S3FileSystem

        self.endpoint = endpoint
        self.system = S3FileSystem(
            access_key="key", secret_key="secret", endpoint_override=endpoint, scheme="http", region="us-east-1",
            allow_bucket_creation=True, allow_bucket_deletion=True,
        )  # fmt: skip

    def uri(self, path: str) -> str:
        return f"s3://{path}?endpoint_override=http%3A%2F%2F{self.endpoint}&region=us-east-1"

    def put(self, directory: Path, path: str) -> None:
        from pyarrow.fs import LocalFileSystem, copy_files

        self.system.create_dir(path.partition("/")[0])
        copy_files(str(directory), path, source_filesystem=LocalFileSystem(), destination_filesystem=self.system)

    def write(self, path: str, content: bytes) -> None:
        with self.system.open_output_stream(path) as file:
            file.write(content)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield Store(f"{host}:{port}")
    reset = urllib.request.Request(f"http://{host}:{port}/moto-api/reset", method="POST")
    urllib.request.urlopen(reset, timeout=10).close()
    server.stop()


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands write to the folder `audit` if they are told no other."""
    monkeypatch.chdir(tmp_path)


def test_what_is_far() -> None:
    assert all(map(is_far, ("s3://b/p", "s3a://b/p", "hdfs://h:1/p", "gs://b")))
    assert not any(map(is_far, ("/var/lib/kafka", "logs", "C:\\kafka", "s3", "a//b")))


def test_an_audit_of_a_bucket_says_what_one_of_its_files_does(store: Store, recorded: Recorded, tmp_path: Path) -> None:
    directory = recorded("hang")
    store.put(directory, "backup/broker-1")
    plain = audit_logs([directory])
    with redirect_stdout(io.StringIO()) as said:
        code = exit_code(
            "audit", "logs", store.uri("backup/broker-1"), "--master", "none", "--out", store.uri("backup/audit")
        )
    assert 1 == code
    assert "hangs in orders-0 since offset 36" in said.getvalue()
    summary = json.loads(store.system.open_input_stream("backup/audit/summary.json").read())
    assert plain.summary()["anomalies"] == summary["anomalies"]
    assert (plain.files, plain.bytes) == (summary["files"], summary["bytes"])
    assert store.system.get_file_info("backup/audit/anomalies.parquet").size > 0
    with redirect_stdout(io.StringIO()):
        assert 0 == exit_code("scan", store.uri("backup/broker-1").replace("s3://", "s3a://"))
        assert 0 == exit_code("scan", store.uri("backup/broker-1/orders-0"))


def test_a_copy_that_is_kept_fetches_only_what_is_new(store: Store, recorded: Recorded, tmp_path: Path) -> None:
    directory = recorded("tv2")
    store.put(directory, "backup/broker-1")
    place, stage = store.uri("backup/broker-1"), tmp_path / "stage"

    def copied() -> dict[str, int]:
        with fetched([place], stage=stage) as (here,):
            return {str(path.relative_to(here)): path.stat().st_ino for path in here.rglob("*") if path.is_file()}

    first = copied()
    assert {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()} == first.keys()
    assert first == copied()
    store.write("backup/broker-1/meta.properties", b"cluster.id=another\nnode.id=1\nversion=1\n")
    store.system.delete_file("backup/broker-1/plain-0/00000000000000000000.log")
    second = copied()
    assert {"plain-0/00000000000000000000.log"} == first.keys() - second.keys()
    assert ["meta.properties"] == [name for name, inode in second.items() if first[name] != inode]
    with fetched([place], ["orders"], stage=stage) as (here,):
        partitions = {path.name.rpartition("-")[0] for path in here.iterdir() if path.is_dir()}
    assert {"orders", "__cluster_metadata"} >= partitions > set()


def test_a_copy_without_a_folder_leaves_nothing(store: Store, recorded: Recorded) -> None:
    store.put(recorded("idle"), "backup/idle")
    with fetched([store.uri("backup/idle"), "/else"]) as (here, there):
        assert any(here.rglob("*.log"))
        assert Path("/else") == there
    assert not here.exists()


def test_wrong_calls(store: Store, recorded: Recorded, tmp_path: Path) -> None:
    store.put(recorded("idle"), "backup/idle")
    store.write("backup/notes/readme.txt", b"x")
    audit = ["audit", "logs", "--master", "none"]
    for place in ("nobucket/logs", "backup/nothing"):
        assert "There is no s3://" in called(*audit, store.uri(place))
    assert "There is no partition in s3://" in called(*audit, store.uri("backup/notes"))
    assert "names no place that can be reached" in called(*audit, "ftp2://somewhere/logs")
    assert "name a --stage" in called(*audit, store.uri("backup/idle"), "--state", tmp_path / "state")
    assert "There is no topic nope" in called(*audit, store.uri("backup/idle"), "--topic", "nope")


def test_tables_that_cannot_be_placed_are_told_before_the_work(store: Store) -> None:
    with (
        pytest.raises(UsageError, match=r"^The bucket of s3://nobucket/x\S* does not exist\.$"),
        placed(store.uri("nobucket/x")),
    ):
        pytest.fail("the audit began")
    with pytest.raises(UsageError, match=r"names no place that can be reached"), placed("s3://b/x?no_such_option=1"):
        pytest.fail("the audit began")
