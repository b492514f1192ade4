"""`odradek watch` beside running brokers: a transaction that hangs, restarts, a broker that goes away, wrong calls."""

from __future__ import annotations

import io
import json
import re
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from odradek.cli.usage import UsageError
from odradek.control.why import why
from odradek.net.recent import Recent
from odradek.records.record import Record, build_batch
from odradek.testing import Cluster
from odradek_pipeline.demo.raw_produce import produce_raw
from odradek_pipeline.watch.brokers import Brokers
from odradek_pipeline.watch.look import take_look
from odradek_pipeline.watch.names import Names
from odradek_pipeline.watch.running import Settings, watch_cluster

pytestmark = pytest.mark.client

LEVEL_0 = {"transaction.partition.verification.enable": "false"}
SOON_S = 10.0


def committed(bootstrap: str, name: str, *, topic: str = "orders") -> Producer:
    """A producer behind one transaction."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 0, "log_level": 2})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, value=b"first", partition=0)
    producer.commit_transaction(30)
    return producer


def open_one(producer: Producer) -> None:
    producer.begin_transaction()
    producer.produce("orders", value=b"open", partition=0)
    producer.flush(30)


def late_batch(bootstrap: str, name: str) -> int:
    """A batch of a transaction that has ended: it opens one that nobody knows; the error code."""
    brokers, names = Brokers(bootstrap), Names()
    assert brokers.begin()
    names.read(brokers)
    brokers.close()
    (producer_id,) = (number for number, of in names.of_producer.items() if of == name)
    record = Record(value=b"late", timestamp=time.time_ns() // 1_000_000)
    batch = build_batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=1, transactional=True)
    return produce_raw(bootstrap, name, "orders", 0, batch)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2, topics=["orders:1:1"], transaction_version=0, config=LEVEL_0, seed=1) as running:
        yield running


def watched(settings: Settings) -> tuple[int, str]:
    said = io.StringIO()
    with redirect_stdout(said):
        code = watch_cluster(settings)
    return code, said.getvalue()


def told(out: Path) -> list[dict[str, Any]]:
    lines = (out / "incidents.jsonl").read_text().splitlines() if (out / "incidents.jsonl").exists() else []
    return [json.loads(line) for line in lines]


class InTheBackground:
    """A watch on a thread; what it wrote is looked at from here."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.code = -1
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        self.code = watch_cluster(self.settings)

    def until_looked(self) -> None:
        """Behind the first look."""
        deadline = time.monotonic() + SOON_S
        while not (self.settings.out / "watch.json").exists() and time.monotonic() < deadline:
            time.sleep(0.05)

    def until(self, wanted: int) -> list[dict[str, Any]]:
        """As soon as so many lines are there."""
        deadline = time.monotonic() + SOON_S
        while len(told(self.settings.out)) < wanted and time.monotonic() < deadline:
            time.sleep(0.05)
        return told(self.settings.out)


def test_a_healthy_cluster_is_ok(cluster: Cluster, tmp_path: Path) -> None:
    producer = committed(cluster.bootstrap, "shop")
    open_one(producer)
    code, said = watched(Settings(cluster.bootstrap, tmp_path, once=True))
    assert (0, []) == (code, told(tmp_path))
    assert "1 transaction under way" in said
    assert "1 by clients of transaction.version 0" in said
    assert re.search(r"orders-0 +3 +2 +1 +shop", said)


TIMES = r"\d+:\d+:\d+\.\d+|[\d.]+ (ms|s)\b"


def without_times(text: str) -> str:
    return re.sub(TIMES, "T", text)


def test_the_sentences_are_those_of_the_hub(cluster: Cluster, tmp_path: Path) -> None:
    producers = [committed(cluster.bootstrap, name) for name in ("shop", "till")]
    for producer in producers:
        open_one(producer)
    _, said = watched(Settings(cluster.bootstrap, tmp_path, once=True))
    [stop] = cluster._call(lambda: why(cluster._running, Recent(), "orders-0")).sentences
    [open_too] = cluster._call(lambda: why(cluster._running, Recent(), "till")).sentences
    assert "stop at offset 4 of 6: shop is open there since " in stop
    assert "; its newest record there is " in stop
    assert "Transaction till is Ongoing for " in open_too
    for sentence in (stop, open_too):
        assert without_times(sentence) in without_times(said)


def test_a_hanging_transaction_is_named_and_a_restart_does_not_tell_it_again(cluster: Cluster, tmp_path: Path) -> None:
    producer = committed(cluster.bootstrap, "shop")
    watch = InTheBackground(Settings(cluster.bootstrap, tmp_path, interval=0.2, seconds=6))
    assert 0 == late_batch(cluster.bootstrap, "shop")
    began = time.monotonic()
    (one,) = watch.until(1)
    assert time.monotonic() - began < SOON_S
    assert ("hanging-transaction", "shop", 2) == (one["incident"], one["transactional_id"], one["offset"])
    watch.thread.join()
    assert 1 == watch.code

    code, said = watched(Settings(cluster.bootstrap, tmp_path, once=True))
    assert (1, 1) == (code, len(told(tmp_path)))
    assert "still open from before: hanging-transaction" in said

    # What was to be run is what ends it; here the next transaction of the producer does.
    open_one(producer)
    producer.commit_transaction(30)
    code, said = watched(Settings(cluster.bootstrap, tmp_path, once=True))
    assert (1, 2) == (code, len(told(tmp_path)))  # it was open when this run began
    code, _ = watched(Settings(cluster.bootstrap, tmp_path, once=True))
    assert (0, 2) == (code, len(told(tmp_path)))
    assert "closed hanging-transaction" in said


def test_a_broker_that_goes_away_and_comes_back(cluster: Cluster, tmp_path: Path) -> None:
    committed(cluster.bootstrap, "shop")
    leader = cluster.leader("orders", 0)
    brokers = Brokers(cluster.bootstrap)
    assert take_look(brokers, 1) is not None
    cluster.stop_broker(leader)
    look = take_look(brokers, 2)
    assert look is not None
    assert ("orders", 0) in look.unseen
    code, said = watched(Settings(cluster.bootstrap, tmp_path, once=True))
    assert 2 == code
    assert "not everything could be looked at" in said
    assert {"no-leader"} == {one["incident"] for one in told(tmp_path)}
    cluster.start_broker(leader)
    code, _ = watched(Settings(cluster.bootstrap, tmp_path, once=True))
    assert 0 == code
    assert all(one["closed_ms"] > 0 for one in told(tmp_path)[len(told(tmp_path)) // 2 :])
    again = take_look(brokers, 3)  # over connections that have ended meanwhile
    assert again is not None
    assert again.is_whole or take_look(brokers, 4).is_whole  # type: ignore[union-attr]
    brokers.close()


def test_a_paused_broker_is_named(cluster: Cluster) -> None:
    committed(cluster.bootstrap, "shop")
    brokers = Brokers(cluster.bootstrap, timeout_s=0.3)
    assert take_look(brokers, 1) is not None
    other = 2 if cluster.leader("orders", 0) == 1 else 1
    cluster.pause_broker(other)
    look = take_look(brokers, 2)
    assert look is not None
    assert 1 == len(look.away)
    assert "does not answer" in look.doubts
    cluster.resume_broker(other)
    brokers.close()


def test_metrics(cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    committed(cluster.bootstrap, "shop")
    assert 0 == late_batch(cluster.bootstrap, "shop")
    settings = Settings(cluster.bootstrap, tmp_path, interval=0.2, seconds=3, metrics=("127.0.0.1", 0))
    watch = InTheBackground(settings)
    watch.until(1)
    address = re.search(r"http://\S+", capsys.readouterr().out)
    assert address is not None
    page = ""
    deadline = time.monotonic() + SOON_S
    while "hanging" not in page and time.monotonic() < deadline:
        page = urllib.request.urlopen(address[0], timeout=5).read().decode()
    watch.thread.join()
    assert 'odradek_watch_open_incidents{incident="hanging-transaction",severity="bad"} 1.0' in page
    assert 'odradek_watch_last_stable_offset_lag{partition="0",topic="orders"} 1.0' in page
    assert 'odradek_watch_transactional_ids{level="0"} 1.0' in page
    assert re.search(r"odradek_watch_looks_total [1-9]", page)


def test_verifications_that_fail_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = tmp_path / "events.jsonl"
    with Cluster(topics=["orders"], transaction_version=1, events=events, seed=1) as running:
        committed(running.bootstrap, "shop")
        watch = InTheBackground(
            Settings(running.bootstrap, tmp_path / "out", interval=0.2, seconds=3, events=events, metrics=None)
        )
        watch.until_looked()
        assert 0 != late_batch(running.bootstrap, "shop")
        watch.thread.join()
        assert 0 == watch.code
    assert "verifications that failed: 1 TRANSACTION_ABORTABLE" in capsys.readouterr().out


def test_wrong_calls(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^Nobody answers at 127\.0\.0\.1:1: "):
        watch_cluster(Settings("127.0.0.1:1", tmp_path, once=True))
    with pytest.raises(UsageError, match=r"^There is no topic nope in "):
        watch_cluster(Settings(cluster.bootstrap, tmp_path, frozenset(["nope"]), once=True))
    (tmp_path / "watch.json").write_text('{"cluster_id": "another"}')
    with pytest.raises(UsageError, match=r" is of another cluster: another, where "):
        watch_cluster(Settings(cluster.bootstrap, tmp_path, once=True))
    (tmp_path / "watch.json").write_text("{")
    with pytest.raises(UsageError, match=r"watch\.json cannot be read: "):
        watch_cluster(Settings(cluster.bootstrap, tmp_path, once=True))


def test_a_release_without_these_requests_is_refused(tmp_path: Path) -> None:
    with (
        Cluster(topics=["orders"], as_kafka="2.8", seed=1) as old,
        pytest.raises(UsageError, match=r"does not know DESCRIBE_TRANSACTIONS \(Apache Kafka has it since 3\.0\)"),
    ):
        watch_cluster(Settings(old.bootstrap, tmp_path, once=True))


@pytest.mark.parametrize("release", ["3.3", "3.9"])
def test_older_releases_are_watched(tmp_path: Path, release: str) -> None:
    with Cluster(topics=["orders"], as_kafka=release, seed=1) as older:
        committed(older.bootstrap, "shop")
        code, said = watched(Settings(older.bootstrap, tmp_path, once=True))
    assert (0, True) == (code, "by clients of transaction.version 0" in said)
