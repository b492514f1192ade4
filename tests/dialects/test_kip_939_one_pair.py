"""The dialect kip-939-one-pair: a test for each sentence of the smaller draft of KIP-939."""

from __future__ import annotations

import pytest
from tests.dialects.steps import Player
from tests.kips.helpers import Cluster, P

from odradek.releases.dialects.load import load
from odradek.releases.dialects.producer import Refusal
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest

DRAFT = load("kip-939-one-pair")
NONE = (-1, -1)


def cluster_of() -> Cluster:
    return Cluster(2, dialect=DRAFT, transaction_two_phase_commit_enable=True)


def prepared(cluster: Cluster) -> Player:
    """A producer with an open transaction of one record."""
    former = Player.started(cluster, "x", two_phase=True)
    former.do(former.core.send(*P, b"prepared"))
    return former


def recovering(cluster: Cluster) -> Player:
    """The next producer of the id, which keeps the transaction."""
    owner = Player(cluster, "x", two_phase=True)
    owner.do(owner.core.init(keep=True))
    return owner


def test_keeping_needs_two_phase_commit() -> None:
    cluster = cluster_of()
    prepared(cluster)
    request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000, keep_prepared_txn=True)
    assert ErrorCode.INVALID_REQUEST == cluster.ask(cluster.coordinator("x"), request, 6).error_code


def test_the_owner_goes_on_with_the_pair_of_the_transaction() -> None:
    cluster = cluster_of()
    former = prepared(cluster)
    written = cluster.log(cluster.log_of("x"))
    request = InitProducerIdRequest(transactional_id="x", enable2_pc=True, keep_prepared_txn=True)
    answer = cluster.ask(cluster.coordinator("x"), request, 6)
    assert former.pair == (answer.producer_id, answer.producer_epoch)
    assert former.pair == (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch)
    assert written == cluster.log(cluster.log_of("x"))


@pytest.mark.parametrize("commits", [True, False])
def test_the_owner_ends_it(commits: bool) -> None:
    cluster = cluster_of()
    former = prepared(cluster)
    owner = recovering(cluster)
    owner.do(owner.core.end(commit=commits))
    assert ([b"prepared"] if commits else []) == cluster.consumed(P)
    assert (former.pair[0], former.pair[1] + 1) == owner.pair


def test_where_nothing_is_open_it_is_bumped() -> None:
    cluster = cluster_of()
    first = Player.started(cluster, "x", two_phase=True)
    request = InitProducerIdRequest(transactional_id="x", enable2_pc=True, keep_prepared_txn=True)
    answer = cluster.ask(cluster.coordinator("x"), request, 6)
    assert (first.pair[0], first.pair[1] + 1) == (answer.producer_id, answer.producer_epoch)
    assert NONE == (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch)


def test_another_pair_is_fenced() -> None:
    cluster = cluster_of()
    former = prepared(cluster)
    request = InitProducerIdRequest(
        transactional_id="x",
        enable2_pc=True,
        keep_prepared_txn=True,
        producer_id=former.pair[0],
        producer_epoch=former.pair[1] + 7,
    )
    assert ErrorCode.PRODUCER_FENCED == cluster.ask(cluster.coordinator("x"), request, 6).error_code


def test_the_former_self_ends_what_the_owner_keeps() -> None:
    """The fault of the draft: both have one pair."""
    cluster = cluster_of()
    former = prepared(cluster)
    owner = recovering(cluster)
    former.do(former.core.end(commit=True))
    assert [b"prepared"] == cluster.consumed(P)
    with pytest.raises(Refusal):
        owner.do(owner.core.end(commit=False))
