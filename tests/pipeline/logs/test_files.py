"""Log directories in an object store, an S3 server on loopback: what is read of it, and what is said when it fails."""

from __future__ import annotations

import http.client
import io
import json
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from bench.audit_scale.logs import Plan, make_logs
from moto.server import ThreadedMotoServer
from tests.pipeline.commands.test_wrong_calls import called, exit_code

from odradek.cli.usage import UsageError
from odradek_pipeline.audit.result import Result
from odradek_pipeline.audit.stores import placed
from odradek_pipeline.commands.preflight import spark_troubles
from odradek_pipeline.jobs.audit_logs import audit_logs
from odradek_pipeline.jobs.audit_logs_spark import audit_logs_on_spark
from odradek_pipeline.logs import files
from odradek_pipeline.logs.files import PATIENCE_VARIABLE, StoreError, is_far, path_of, place_of, read_bytes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


def plain(result: Result) -> list[tuple[object, ...]]:
    names = ["anomaly", "severity", "topic", "partition", "offset", "end_offset", "producer_id", "detail"]
    return sorted(result.anomalies[names].itertuples(index=False, name=None))


def test_only_ranges_are_fetched_and_nothing_is_kept(
    store: Store, recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = recorded("tv2")
    store.put(directory, "backup/broker-1")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    asked: list[tuple[int, int]] = []
    fetch = files.fetched_range

    def counted(far: Any, start: int, count: int) -> bytes:
        asked.append((start, count))
        return fetch(far, start, count)

    monkeypatch.setattr(files, "fetched_range", counted)
    monkeypatch.setattr(files, "WINDOW_BYTES", 4096)
    here, there = audit_logs([directory]), audit_logs([path_of(store.uri("backup/broker-1"))])
    assert plain(here) == plain(there)
    assert (here.bytes, here.facts["batches"]) == (there.bytes, there.facts["batches"])
    assert len(asked) > there.bytes // 8192, "each range is a window of a segment"
    assert max(count for _, count in asked) <= max(files.BUFFER_BYTES, 4096)
    assert [] == list(scratch.rglob("*"))


def test_a_range_holds_no_more_than_is_looked_at(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment as large as a store has them is gone through window by window."""
    make_logs(tmp_path / "logs", Plan(40 << 20, segment_bytes=16 << 20))
    store.put(tmp_path / "logs", "backup/large")
    monkeypatch.setattr(files, "WINDOW_BYTES", 256 << 10)
    monkeypatch.setattr(files, "STRIDE_BYTES", 1 << 20)
    held: list[int] = []
    free = files.Segment.free

    def noted(segment: files.Segment, upto: int) -> None:
        if segment.far is not None:
            held.append(segment.loaded - segment.freed)
        free(segment, upto)

    monkeypatch.setattr(files.Segment, "free", noted)
    here, there = audit_logs([tmp_path / "logs"]), audit_logs([path_of(store.uri("backup/large"))])
    assert plain(here) == plain(there)
    assert here.facts["batches"] == there.facts["batches"]
    assert max(held) < 2 << 20


def test_workers_of_spark_read_the_store_themselves(store: Store, recorded: Recorded, spark: SparkSession) -> None:
    directory = recorded("hang")
    store.put(directory, "backup/broker-1")
    here = audit_logs([directory])
    there = audit_logs_on_spark(spark, [path_of(store.uri("backup/broker-1"))], Path("out"), range_bytes=64 << 10)
    assert plain(here) == plain(there)
    assert here.is_bad
    assert there.incidents is not None
    assert there.incidents["path"].str.startswith("s3://backup/broker-1/orders-0/").all()


def test_a_repeated_audit_reads_what_is_new(store: Store, tmp_path: Path) -> None:
    make_logs(tmp_path / "logs", Plan(8 << 20, segment_bytes=1 << 20, transactional_partitions=0))
    store.put(tmp_path / "logs", "backup/again")
    place = path_of(store.uri("backup/again"))
    first = audit_logs([place], state=tmp_path / "state")
    second = audit_logs([place], state=tmp_path / "state")
    assert first.facts["bytes_remembered"] == 0 < first.bytes
    assert second.bytes == 0
    assert first.bytes == second.facts["bytes_remembered"]


class Between:
    """A proxy in front of the store, which answers by itself what it is told to."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.refuses: dict[str, tuple[int, str, int]] = {}
        """By the end of a path: the status, the code, and how often."""
        self.refused = 0
        self.expired = ""
        """A key: what is signed with it is refused."""
        self.first: dict[str, Callable[[], None]] = {}
        """By the end of a path: what happens when it is asked for the first time, before that is passed on."""
        between = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                between.answer(self)

            do_HEAD = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        path = handler.path.partition("?")[0]
        for end in [one for one in self.first if path.endswith(one)]:
            self.first.pop(end)()
        if self.expired and f"Credential={self.expired}/" in handler.headers.get("Authorization", ""):
            self.refused += 1
            self.send(handler, 403, {"Content-Type": "application/xml"}, b"<Error><Code>ExpiredToken</Code></Error>")
            return
        for end, (status, code, left) in list(self.refuses.items()):
            if path.endswith(end) and left:
                self.refuses[end] = status, code, left - 1
                self.refused += 1
                body = f"<Error><Code>{code}</Code><Message>told to</Message></Error>".encode()
                self.send(handler, status, {"Content-Type": "application/xml"}, body)
                return
        connection = http.client.HTTPConnection(self.endpoint, timeout=30)
        connection.request(handler.command, handler.path, headers=dict(handler.headers.items()))
        said = connection.getresponse()
        kept = {
            name: value for name, value in said.getheaders() if name.lower() not in ("connection", "transfer-encoding")
        }
        self.send(handler, said.status, kept, said.read())
        connection.close()

    @staticmethod
    def send(handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            if name.lower() != "content-length" or handler.command == "HEAD":
                handler.send_header(name, value)
        if handler.command != "HEAD":
            handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(body)

    def uri(self, path: str) -> str:
        host, port = self.server.server_address[:2]
        return f"s3://{path}?endpoint_override=http%3A%2F%2F{host!s}%3A{port}&region=us-east-1"


@pytest.fixture
def between(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Between]:
    monkeypatch.setattr(files, "WAITS_S", (0.01,))
    proxy = Between(store.endpoint)
    yield proxy
    proxy.server.shutdown()
    proxy.server.server_close()


@pytest.mark.parametrize(("status", "code"), [(503, "SlowDown"), (403, "ExpiredToken")])
def test_a_store_that_refuses_for_a_while_is_asked_again(
    store: Store, between: Between, recorded: Recorded, status: int, code: str
) -> None:
    directory = recorded("hang")
    store.put(directory, "backup/broker-1")
    between.refuses = {"/orders-0/00000000000000000000.log": (status, code, 6)}
    result = audit_logs([path_of(between.uri("backup/broker-1"))])
    assert 6 == between.refused
    assert plain(audit_logs([directory])) == plain(result)


class Clock:
    """Time that passes only while an audit waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self.then: dict[float, Callable[[], None]] = {}
        """What happens once so many seconds have passed."""

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for at in [one for one in self.then if one <= self.now]:
            self.then.pop(at)()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(files, "time", clock)
    return clock


def test_a_store_may_be_busy_for_a_minute_by_itself_but_not_for_good(
    store: Store, between: Between, recorded: Recorded, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = recorded("hang")
    store.put(directory, "backup/broker-1")
    monkeypatch.setattr(files, "WAITS_S", (15.0,))
    log = "/orders-0/00000000000000000000.log"
    between.refuses = {log: (503, "SlowDown", 1 << 30)}
    clock.then[60.0] = between.refuses.clear
    result = audit_logs([path_of(between.uri("backup/broker-1"))])
    assert between.refused >= 4
    assert 60.0 == clock.now, "and no longer than it is busy"
    assert plain(audit_logs([directory])) == plain(result)
    between.refuses = {log: (503, "SlowDown", 1 << 30)}
    with pytest.raises(StoreError, match=r"cannot be reached"):
        audit_logs([path_of(between.uri("backup/broker-1"))])
    assert 165.0 <= clock.now <= 60.0 + files.PATIENCE_S


def test_keys_that_expire_in_the_middle_are_looked_for_anew(
    store: Store, between: Between, recorded: Recorded, clock: Clock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where something writes new keys to a file now and then: a client reads it when it is made."""
    directory = recorded("hang")
    store.put(directory, "backup/broker-1")
    keys = tmp_path / "credentials"

    def write(key: str) -> None:
        keys.write_text(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = secret\n")

    def expire() -> None:
        between.expired = "older"

    write("older")
    monkeypatch.setenv(PATIENCE_VARIABLE, "0.5")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    between.first["/orders-0/00000000000000000000.log"] = expire
    clock.then[0.02] = lambda: write("newer")
    result = audit_logs([path_of(between.uri("backup/broker-1"))])
    assert between.refused > 0
    assert clock.now < 1.0
    assert plain(audit_logs([directory])) == plain(result)


def test_workers_of_spark_ask_a_busy_store_again(
    store: Store, between: Between, recorded: Recorded, spark: SparkSession
) -> None:
    directory = recorded("hang")
    store.put(directory, "backup/broker-1")
    between.refuses = {"/orders-0/00000000000000000000.log": (503, "SlowDown", 2)}
    there = audit_logs_on_spark(spark, [path_of(between.uri("backup/broker-1"))], Path("out"))
    assert 2 == between.refused
    assert plain(audit_logs([directory])) == plain(there)


def test_a_segment_that_is_deleted_while_workers_of_spark_read_is_no_damage(
    store: Store, between: Between, recorded: Recorded, spark: SparkSession
) -> None:
    store.put(recorded("tv2"), "backup/broker-1")
    gone = "plain-0/00000000000000000000.log"
    between.first[f"/{gone}"] = lambda: store.system.delete_file(f"backup/broker-1/{gone}")
    result = audit_logs_on_spark(spark, [path_of(between.uri("backup/broker-1"))], Path("out"))
    assert not between.first
    assert {"info"} == {one.severity for one in result.problems if one.problem == "vanished"}
    assert not result.is_bad


def test_workers_of_spark_whose_keys_have_expired_end_the_audit_with_one_sentence(
    store: Store, between: Between, recorded: Recorded, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(recorded("tv2"), "backup/broker-1")
    monkeypatch.setenv(PATIENCE_VARIABLE, "0.05")
    between.refuses = {"/orders-0/00000000000000000000.log": (403, "ExpiredToken", 1 << 30)}
    with (
        pytest.raises(
            UsageError, match=r"^Spark gave up: \S*StoreError: s3://backup/broker-1/orders-0/0+\.log cannot .*\.$"
        ),
        spark_troubles(),
    ):
        audit_logs_on_spark(spark, [path_of(between.uri("backup/broker-1"))], Path("out"))


def test_a_store_that_refuses_for_good_is_told_and_nothing_is_judged(
    store: Store, between: Between, recorded: Recorded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store.put(recorded("tv2"), "backup/broker-1")
    monkeypatch.setenv(PATIENCE_VARIABLE, "0.05")
    between.refuses = {"/orders-0/00000000000000000000.log": (403, "ExpiredToken", 1 << 30)}
    with pytest.raises(StoreError, match=r"^s3://backup/broker-1/orders-0/0+\.log cannot be reached: .*\.$"):
        audit_logs([path_of(between.uri("backup/broker-1"))])
    assert "cannot be reached" in called("audit", "logs", "--master", "none", between.uri("backup/broker-1"))
    assert not (tmp_path / "audit" / "summary.json").exists()


def test_a_segment_that_is_deleted_while_it_is_read_is_no_damage(
    store: Store, recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(recorded("tv2"), "backup/broker-1")
    fetch = files.fetched_range
    gone = "plain-0/00000000000000000000.log"

    def deletes(far: Any, start: int, count: int) -> bytes:
        if far.whole.endswith(gone) and store.system.get_file_info(f"backup/broker-1/{gone}").is_file:
            store.system.delete_file(f"backup/broker-1/{gone}")
        return fetch(far, start, count)

    monkeypatch.setattr(files, "fetched_range", deletes)
    result = audit_logs([path_of(store.uri("backup/broker-1"))])
    assert ["info"] == [one.severity for one in result.problems if one.problem == "vanished"]
    assert not result.is_bad


def test_what_arrow_does_not_know_is_read_by_fsspec(recorded: Recorded) -> None:
    import fsspec

    directory = recorded("hang")
    memory = fsspec.filesystem("memory")
    memory.put(str(directory), "/logs/broker-1", recursive=True)
    try:
        result = audit_logs([path_of("memory://logs/broker-1")])
    finally:
        memory.rm("/logs", recursive=True)
    assert plain(audit_logs([directory])) == plain(result)


def test_paths_in_stores() -> None:
    assert "s3:/b/p" == str(path_of("s3://b/p/?region=x"))
    assert "lost s3://b/p-0 here, /s3:/x" == place_of("lost s3:/b/p-0 here, /s3:/x")
    with pytest.raises(UsageError, match="names no place"):
        path_of("hdfs:///logs")
    with pytest.raises(FileNotFoundError):
        read_bytes("/no/such/file")


def test_wrong_calls(store: Store, recorded: Recorded, tmp_path: Path) -> None:
    store.put(recorded("idle"), "backup/idle")
    store.write("backup/notes/readme.txt", b"x")
    audit = ["audit", "logs", "--master", "none"]
    for place in ("nobucket/logs", "backup/nothing"):
        assert "There is no s3://" in called(*audit, store.uri(place))
    assert "There is no partition in s3://" in called(*audit, store.uri("backup/notes"))
    assert "names no place that can be reached" in called(*audit, "ftp2://somewhere/logs")
    assert "There is no topic nope" in called(*audit, store.uri("backup/idle"), "--topic", "nope")


def test_tables_that_cannot_be_placed_are_told_before_the_work(store: Store) -> None:
    with (
        pytest.raises(UsageError, match=r"^The bucket of s3://nobucket/x\S* does not exist\.$"),
        placed(store.uri("nobucket/x")),
    ):
        pytest.fail("the audit began")
    with pytest.raises(UsageError, match=r"names no place that can be reached"), placed("s3://b/x?no_such_option=1"):
        pytest.fail("the audit began")
