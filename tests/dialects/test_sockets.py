"""The producer of `odradek.testing.dialects` over real sockets."""

from __future__ import annotations

import pytest

from odradek.testing import Cluster
from odradek.testing.dialects import TransactionalProducer

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
