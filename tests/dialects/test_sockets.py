"""The producer of `odradek.testing.dialects` over real sockets."""

from __future__ import annotations

import pytest

from odradek.testing import Cluster
from odradek.testing.dialects import SharedRecord, TransactionalProducer, TransactionalShareConsumer

TWO_PHASE = {"transaction.two.phase.commit.enable": True}


@pytest.mark.slow
@pytest.mark.parametrize("commits", [True, False])
def test_a_prepared_transaction_of_a_producer_that_is_gone(commits: bool) -> None:
    with Cluster(dialect="kip-939", topics="orders:2", brokers=2, config=TWO_PHASE) as cluster:
        with TransactionalProducer("kip-939", cluster.bootstrap, "id", two_phase=True) as former:
            former.init()
            former.send("orders", 0, b"a")
            former.send("orders", 1, b"b")
            former.commit_offsets("group", {("orders", 0): 1})
            prepared = former.prepare()
        with TransactionalProducer("kip-939", cluster.bootstrap, "id", two_phase=True) as owner:
            owner.init(keep=True)
            assert commits == owner.complete(prepared if commits else (-1, -1))
            assert 2 == owner.send("orders", 0, b"next")
            owner.abort()


@pytest.mark.slow
def test_a_release_is_spoken_as_well() -> None:
    with (
        Cluster(as_kafka="3.9", topics="t") as cluster,
        TransactionalProducer("3.9", cluster.bootstrap, "id", level=0) as producer,
    ):
        producer.init()
        assert 0 == producer.send("t", 0, b"a")
        producer.commit()
        assert 2 == producer.send("t", 0, b"b")
        producer.abort()


@pytest.mark.slow
def test_two_clusters_of_one_process_speak_what_each_speaks() -> None:
    with (
        Cluster(dialect="kip-890-text", topics="t") as text,
        Cluster(topics="t") as kafka,
        TransactionalProducer("kip-890-text", text.bootstrap, "id") as new,
        TransactionalProducer("4.4", kafka.bootstrap, "id") as shipped,
    ):
        for producer in (new, shipped):
            producer.init()
            producer.send("t", 0, b"a")
            assert (0, 1) == (producer.commit().error_code, producer.core.pair[1])


@pytest.mark.slow
def test_records_of_a_share_group_are_acknowledged_with_a_transaction() -> None:
    with (
        Cluster(dialect="kip-1289", topics=["orders:2", "cakes:1"], brokers=2) as cluster,
        TransactionalProducer("kip-1289", cluster.bootstrap, "oven") as oven,
        TransactionalShareConsumer("kip-1289", cluster.bootstrap, "bakers", ["orders"]) as consumer,
    ):
        consumer.join()
        consumer.poll(0)  # a new group begins at the end
        oven.init()
        oven.send("orders", 0, b"a")
        oven.send("orders", 1, b"b")
        oven.commit()
        delivered = []
        for commits in (False, True):
            records = taken(consumer, 2)
            delivered.append(sorted((each.value, each.count) for each in records))
            for record in records:
                oven.send("cakes", 0, record.value or b"")
                consumer.acknowledge(record)
            oven.acknowledge(consumer.for_transaction(), consumer.metadata)
            (oven.commit if commits else oven.abort)()
        assert [[(b"a", 1), (b"b", 1)], [(b"a", 2), (b"b", 2)]] == delivered
        assert [] == consumer.poll(1_500)
        consumer.leave()


def taken(consumer: TransactionalShareConsumer, count: int) -> list[SharedRecord]:
    """So many records, for which it may have to ask more than once."""
    found: list[SharedRecord] = []
    for _ in range(60):
        found += consumer.poll(500)
        if len(found) >= count:
            break
    return found
