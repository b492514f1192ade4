"""All logs of a cluster, within a bound of memory."""

from __future__ import annotations

from tests.unit.log.helpers import GIB, NOW, TOPIC_ID, batch, new_log, new_partition, new_store

from odradek.config.table import TopicConfig
from odradek.core.machine import Refused
from odradek.log.log import Log
from odradek.log.log_store import LogStore
from odradek.log.segment import SEGMENT_BYTES
from odradek.wire.errors import ErrorCode

KIB = 1024


def fill(log: Log, batches: int, size: int = KIB) -> None:
    for _ in range(batches):
        log.append(batch(b"x" * size), leader_epoch=0, now=NOW)


def test_open_gives_the_same_log_and_adopts_the_config() -> None:
    store = new_store()
    log = store.open(TOPIC_ID, 0, TopicConfig())
    assert log is store.open(TOPIC_ID, 0, TopicConfig(retention_ms=5))
    assert 5 == log.config.retention_ms
    assert log is not store.open(TOPIC_ID, 1, TopicConfig())
    assert 2 == len(store.logs())


def test_drop_gives_back_the_memory_of_a_topic() -> None:
    store = new_store()
    fill(new_log(store, index=0), 3)
    fill(new_log(store, index=1), 3)
    other = store.open(bytes(16), 0, TopicConfig())
    fill(other, 1)
    store.drop(TOPIC_ID)
    assert other.size_bytes == store.bytes_held
    assert [other] == store.logs()
    assert 0 == store.open(TOPIC_ID, 0, TopicConfig()).end_offset


def test_the_oldest_segments_go_first_and_are_reported() -> None:
    store = new_store(40 * KIB)
    old, new = new_log(store, index=0, segment_bytes=4 * KIB), new_log(store, index=1, segment_bytes=4 * KIB)
    old.lead(0, topic="orders")
    fill(old, 9)
    fill(new, 9)
    assert store.shed(30 * KIB)
    assert 30 * KIB <= store.room
    assert 9 == old.end_offset
    assert 0 == new.start_offset or old.size_bytes < 4 * KIB
    fact = store.facts[0]
    assert "log_segment_dropped" == fact.kind
    shown = tuple(fact.fields[name] for name in ("topic", "partition", "from_offset", "log_start_offset"))
    assert ("orders", 0, 0, 3) == shown
    assert sum(int(str(fact.fields["bytes"])) for fact in store.facts) + store.bytes_held == sum(
        18 * [len(batch(b"x" * KIB).view)]
    )


def test_compacted_topics_are_spared() -> None:
    store = new_store(20 * KIB)
    compacted = new_log(store, index=0, segment_bytes=4 * KIB, cleanup_policy=("compact",))
    fill(compacted, 10)
    assert not store.shed(15 * KIB)
    assert (0, []) == (compacted.start_offset, store.facts)


def test_an_active_segment_goes_when_no_sealed_one_is_left() -> None:
    store = new_store(100 * KIB)
    logs = [new_log(store, index=index) for index in range(4)]
    for log in logs:
        fill(log, 10)
    assert store.shed(65 * KIB)
    assert [10, 0, 0, 0] == [log.start_offset for log in logs]


def test_a_client_is_refused_only_when_nothing_may_go() -> None:
    store = new_store(20 * KIB)
    log = new_log(store, cleanup_policy=("compact",))
    partition = new_partition(log)
    answers = [partition.append_client(batch(b"x" * KIB), now=NOW) for _ in range(30)]
    refused = [answer for answer in answers if type(answer).__name__ == "Refused"]
    assert 12 == len(refused)
    assert store.bytes_held <= store.bytes_max


def test_memory_stays_bounded_whatever_is_produced() -> None:
    store = new_store(200 * KIB)
    partition = new_partition(new_log(store))
    for _ in range(1000):
        partition.append_client(batch(b"x" * KIB), now=NOW)
        assert store.bytes_held <= store.bytes_max
    assert 1000 == partition.high_watermark
    assert store.bytes_held > 100 * KIB
    assert store.facts


def test_segments_are_small_against_a_small_store() -> None:
    assert SEGMENT_BYTES == LogStore(bytes_max=GIB).segment_bytes
    assert 128 * KIB == LogStore(bytes_max=2 * KIB * KIB).segment_bytes
    assert 64 * KIB == LogStore(bytes_max=1).segment_bytes


def test_a_leader_that_has_not_heard_of_the_deletion_appends_nothing_more() -> None:
    store = new_store()
    partition = new_partition(new_log(store))
    assert not isinstance(partition.append_client(batch(b"x"), now=NOW), Refused)
    store.drop(TOPIC_ID)
    store.drop(TOPIC_ID)
    assert Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER) == partition.append_client(batch(b"y"), now=NOW)
    assert not partition.is_leader
    assert 0 == store.bytes_held


def test_the_pages_of_dropped_segments_serve_the_next_ones() -> None:
    """A log much is written to touches new memory only as far as it grows."""
    store = new_store(256 * 1024 * KIB)
    log = new_log(store, segment_bytes=4 * 1024 * KIB)
    fill(log, 8, size=1500 * KIB)
    log.advance_start(4)
    kept = store.spare.bytes_kept
    assert 2 * 4 * 1024 * KIB == kept
    fill(log, 2, size=1500 * KIB)
    assert 4 * 1024 * KIB == store.spare.bytes_kept
    assert all(segment.batch(0).crc_is_valid() for segment in log.segments)
