"""The dialect kip-609-draft: a test for each sentence of the draft, and for what it would have got wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import pytest
from tests.dialects.steps import AUTHORIZER, Player, everybody_may
from tests.kips.cluster import topics_of
from tests.kips.helpers import ABORT, COMMIT, GROUP, OK, Cluster, P, Producer, Q, R, Style
from tests.security.permissions import ALL, TOPIC, TRANSACTIONAL_ID, acl

from odradek.core.machine import Refused
from odradek.releases.dialects.kip_609_draft.producer import SessionProducer
from odradek.releases.dialects.load import load
from odradek.releases.dialects.producer import Pair, Refusal, TopicPartition
from odradek.wire import registry
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from odradek.wire.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.messages.apis import ADD_PARTITIONS_TO_TXN
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.registry import ApiKey

DRAFT = load("kip-609-draft")
STYLE = Style("draft-old", produce=8, end=2, offsets=3, add=2, init=3)
OUTCOMES = pytest.mark.parametrize("outcome", [COMMIT, ABORT], ids=["commit", "abort"])
FAILOVER = pytest.mark.parametrize("failover", [False, True], ids=["same-coordinator", "failover"])


def cluster_of(**how: Any) -> Cluster:
    return Cluster(0, dialect=DRAFT, **how)


def client(cluster: Cluster, **how: Any) -> tuple[Player, SessionProducer]:
    """The producer of the draft, which has its id."""
    player = Player(cluster, kind=SessionProducer, level=0, **how)
    core = player.core
    assert isinstance(core, SessionProducer)
    player.do(core.init())
    return player, core


def started(**how: Any) -> tuple[Cluster, Player, SessionProducer]:
    cluster = cluster_of()
    return cluster, *client(cluster, **how)


def transact(player: Player, core: SessionProducer, *partitions: TopicPartition, commit: bool = True) -> None:
    player.do(core.begin(partitions))
    for partition in partitions:
        player.do(core.send(*partition, b"v"))
    player.do(core.end(commit=commit))


def of_clients(calls: Iterable[Any]) -> int:
    """How many AddPartitionsToTxn came from clients; those of brokers have version 4."""
    return sum(call.version < 4 for call in calls)


def end_request(pair: Pair, outcome: bool, *partitions: TopicPartition) -> EndTxnRequest:
    codecs = DRAFT.codecs
    assert codecs is not None
    kind = codecs.request_type(ApiKey.END_TXN)
    request = EndTxnRequest(transactional_id="x", producer_id=pair[0], producer_epoch=pair[1], committed=outcome)
    topic = sys.modules[kind.__module__].EndTxnTopic
    return codecs.own(request, topics=topics_of(partitions, topic))


def ended(cluster: Cluster, pair: Pair, outcome: bool, *partitions: TopicPartition) -> ErrorCode:
    """EndTxn 3, by hand."""
    request = end_request(pair, outcome, *partitions)
    return ErrorCode(cluster.ask(cluster.coordinator("x"), request, 3).error_code)


def adding(pair: Pair, *partitions: TopicPartition) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=pair[0],
        v3_and_below_producer_epoch=pair[1],
        v3_and_below_topics=topics_of(partitions, AddPartitionsToTxnTopic),
    )


def waiting(cluster: Cluster) -> int:
    """How many requests wait for the coordinator of the id."""
    shard = cluster.node(cluster.coordinator("x")).transaction_coordinators.of("x")
    assert not isinstance(shard, Refused)
    return sum(len(tokens) for tokens in shard.machine._waiting.values())


# ---------------------------------------------------------------------- Proposed Changes: the session


def test_what_is_in_the_session_is_not_added_again() -> None:
    """Motivation: the set of partitions does not change often, so it is a waste to update it unnecessarily."""
    cluster, player, core = started()
    adds = cluster.watch(ApiKey.ADD_PARTITIONS_TO_TXN)
    for _ in range(3):
        transact(player, core, P, Q)
    assert 1 == of_clients(adds)
    assert [b"v"] * 3 == cluster.consumed(P)


def test_offsets_are_added_once() -> None:
    """Motivation: similarly for offsets: it is favorable to save this round trip as well."""
    cluster, player, core = started()
    adds = cluster.watch(ApiKey.ADD_OFFSETS_TO_TXN)
    for offset in (5, 6):
        player.do(core.commit_offsets(GROUP, {P: offset}))
        player.do(core.end(commit=True))
        assert offset == cluster.offset()
    assert 1 == len(adds)


@OUTCOMES
@FAILOVER
def test_a_session_outlasts_its_transaction(outcome: bool, failover: bool) -> None:
    """We would also like to retain a transaction session: the coordinator keeps its partitions, in its log."""
    cluster, player, core = started()
    transact(player, core, P, Q, commit=outcome)
    if failover:
        cluster.move(cluster.log_of("x"))
    assert [P, Q] == cluster.described_partitions("x")
    transact(player, core, P, Q)
    assert 1 + outcome == len(cluster.consumed(P))


def test_a_partition_that_emerges_is_added_once() -> None:
    """... so that we do not need to call AddPartitionsToTxn all the time when a new partition is emerged."""
    cluster, player, core = started()
    adds = cluster.watch(ApiKey.ADD_PARTITIONS_TO_TXN)
    for _ in range(2):
        player.do(core.begin())
        for partition in (P, Q, P):
            player.do(core.send(*partition, b"v"))
        player.do(core.end(commit=True))
    assert 2 == of_clients(adds)
    assert [b"v"] * 4 == cluster.consumed(P)


def test_the_leader_keeps_a_session_too() -> None:
    """Chosen: a leader asks the coordinator about the first transaction of a session, and not about the next ones."""
    cluster, player, core = started()
    adds = cluster.watch(ApiKey.ADD_PARTITIONS_TO_TXN)
    for _ in range(3):
        transact(player, core, P)
    assert 1 == len(adds) - of_clients(adds)
    cluster.move(P)
    transact(player, core, P)
    assert 2 == len(adds) - of_clients(adds)


def test_the_leader_forgets_a_session_with_its_producer() -> None:
    """Chosen: like guards a session is volatile, and goes with what is known of the producer."""
    cluster = cluster_of(producer_id_expiration_ms=10_000, producer_id_expiration_check_interval_ms=1_000)
    player, core = client(cluster, timeout_ms=600_000)
    transact(player, core, P)
    held = cluster.node(cluster.leader(P)).partitions[P].producers
    assert {core.pair[0]: 0} == held.sessions
    cluster.world.advance(20_000)
    assert {} == held.sessions


def test_a_partition_outside_of_the_session_is_refused() -> None:
    """Chosen: leaders verify, as Kafka does since 3.6: what is not registered is INVALID_TXN_STATE."""
    cluster, player, core = started()
    player.do(core.begin([P]))
    player.do(core.send(*P, b"a"))
    with pytest.raises(Refusal, match="INVALID_TXN_STATE"):
        player.do(core.produce(Q, [b"b"]))
    assert [] == cluster.values(Q)


# ---------------------------------------------------------------------- Proposed Changes: waiting


@pytest.mark.parametrize("version", [2, 3])
@OUTCOMES
def test_add_partitions_waits_for_the_transaction_before(version: int, outcome: bool) -> None:
    """AddPartitionToTxn becomes a blocking call when there is another pending transaction going on."""
    cluster = cluster_of()
    producer = Producer.started(cluster, STYLE)
    producer.begin(P)
    assert OK is producer.send(P, b"a")
    held = cluster.hold(ApiKey.WRITE_TXN_MARKERS)
    if version == 2:
        assert OK is producer.finish(outcome)
    else:
        assert OK is ended(cluster, producer.pair, outcome, P)
    answer = cluster.pending(
        cluster.coordinator("x"),
        adding(producer.pair, P, Q),
        2,
        lambda got: {each.partition_error_code for each in got.results_by_topic_v3_and_below[0].results_by_partition},
    )
    cluster.world.advance(5_000)
    assert not answer.arrived
    cluster.release(held)
    assert {OK} == answer.result()
    assert [P, Q] == cluster.described_partitions("x")


def test_add_offsets_waits_as_well() -> None:
    """Chosen: the offsets are added by the same step."""
    cluster, player, core = started()
    transact(player, core, P)
    held = cluster.hold(ApiKey.WRITE_TXN_MARKERS)
    transact(player, core, P)
    request = AddOffsetsToTxnRequest(
        transactional_id="x", producer_id=core.pair[0], producer_epoch=core.pair[1], group_id=GROUP
    )
    answer = cluster.pending(cluster.coordinator("x"), request, 2, lambda got: got.error_code)
    cluster.world.advance(5_000)
    assert not answer.arrived
    cluster.release(held)
    assert OK == answer.result()


def test_end_txn_does_not_wait() -> None:
    """Motivation: EndTxn returns when the outcome is materialized in the log; the draft leaves it so."""
    cluster, player, core = started()
    cluster.hold(ApiKey.WRITE_TXN_MARKERS)
    transact(player, core, P)
    assert "PrepareCommit" == cluster.state("x")


def test_a_coordinator_that_goes_sends_who_waits_to_the_next() -> None:
    """Chosen: who waits hears NOT_COORDINATOR, and asks again elsewhere."""
    cluster = cluster_of(brokers=2)
    player, core = client(cluster)
    cluster.hold(ApiKey.WRITE_TXN_MARKERS)
    transact(player, core, P)
    before = cluster.coordinator("x")
    answer = cluster.pending(
        before,
        adding(core.pair, P),
        2,
        lambda got: got.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
    )
    cluster.world.advance(100)
    assert 1 == waiting(cluster)
    cluster.move(cluster.log_of("x"), 3 - before)
    assert ErrorCode.NOT_COORDINATOR == answer.result()


def test_who_is_fenced_does_not_wait() -> None:
    """Chosen: as in Kafka up to 3.9 an epoch that is not the present one is refused at once."""
    cluster, player, core = started()
    cluster.hold(ApiKey.WRITE_TXN_MARKERS)
    transact(player, core, P)
    answer = cluster.ask(cluster.coordinator("x"), adding((core.pair[0], 7), P), 2)
    assert (
        ErrorCode.PRODUCER_FENCED
        == answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    )


def test_nobody_is_left_waiting() -> None:
    """Chosen: whoever waits, for however long, is judged again once the markers are written."""
    cluster, player, core = started()
    held = cluster.hold(ApiKey.WRITE_TXN_MARKERS)
    transact(player, core, P)
    for partitions in ((P, Q), (R,)):
        cluster.send(cluster.coordinator("x"), adding(core.pair, *partitions), 2)
    cluster.world.advance(30_000)
    assert 2 == waiting(cluster)
    cluster.release(held)
    cluster.world.advance(100)
    assert 0 == waiting(cluster)
    assert [P, Q, R] == cluster.described_partitions("x")


# ---------------------------------------------------------------------- Public Interfaces: EndTxn


def test_end_txn_3_is_never_flexible() -> None:
    """EndTxnRequest: versions 0 to 3, flexible none, with Topics from 3 on."""
    codecs = DRAFT.codecs
    assert codecs is not None
    request = end_request((7, 1), COMMIT, ("t", 0), ("t", 2))
    head = b"\0\1x" + (7).to_bytes(8, "big") + (1).to_bytes(2, "big") + b"\1"
    one = (1).to_bytes(4, "big") + b"\0\1t" + (2).to_bytes(4, "big") + bytes(4) + (2).to_bytes(4, "big")
    assert head + one == codecs.encode(request, 3)
    assert head == codecs.encode(end_request((7, 1), COMMIT), 2)
    assert [1, 1] == [codecs.request_header_version(ApiKey.END_TXN, version) for version in (2, 3)]
    assert [0, 0] == [codecs.response_header_version(ApiKey.END_TXN, version) for version in (2, 3)]


def test_only_end_txn_is_new() -> None:
    """We shall bump the EndTxn: 3; nothing else is."""
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    told = {each.api_key: each.max_version for each in cluster_of().ask(1, request, 3).api_keys}
    newest = {
        ApiKey.PRODUCE: 8,
        ApiKey.INIT_PRODUCER_ID: 3,
        ApiKey.ADD_OFFSETS_TO_TXN: 2,
        ApiKey.END_TXN: 3,
        ApiKey.TXN_OFFSET_COMMIT: 3,
    }
    assert newest == {key: told[key] for key in newest}


def test_version_2_knows_producer_fenced() -> None:
    """Version 2 adds the support for the new PRODUCER_FENCED error code."""
    cluster = cluster_of()
    producer = Producer.started(cluster, STYLE)
    producer.begin(P)
    stale = producer.pair[0], 9
    errors = [producer.end(COMMIT, pair=stale, version=version)[0] for version in (1, 2)]
    assert [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED] == errors


def test_only_what_was_written_is_marked() -> None:
    """Topics: the partitions ending up writing in the current transaction."""
    cluster, player, core = started()
    player.do(core.begin([P, Q, R]))
    player.do(core.send(*P, b"a"))
    player.do(core.send(*R, b"a"))
    player.do(core.end(commit=True))
    assert ["0:data@0", "1:COMMIT@0"] == cluster.log(P)
    assert [] == cluster.log(Q)


def test_the_session_is_what_was_written() -> None:
    """... the actual written partitions so that the session gets updated: the others have to be registered again."""
    cluster, player, core = started()
    player.do(core.begin([P, Q]))
    player.do(core.send(*P, b"a"))
    player.do(core.end(commit=True))
    assert [P] == cluster.described_partitions("x")
    adds = cluster.watch(ApiKey.ADD_PARTITIONS_TO_TXN)
    transact(player, core, P)
    assert 0 == of_clients(adds)
    transact(player, core, P, Q)
    assert [[Q[1]]] == [
        call.request_of(ADD_PARTITIONS_TO_TXN).v3_and_below_topics[0].partitions for call in adds if call.version < 4
    ]
    assert [P, Q] == cluster.described_partitions("x")


def test_the_partition_of_offsets_stays_in_the_session() -> None:
    """Chosen: no client names it, so it is marked at each end, and stays."""
    cluster, player, core = started()
    player.do(core.commit_offsets(GROUP, {P: 5}))
    player.do(core.end(commit=True))
    assert [cluster.offsets_of()] == cluster.described_partitions("x")


def test_an_older_end_ends_the_session() -> None:
    """Chosen: up to version 2 nothing is named: all partitions are marked, and nothing is kept."""
    cluster, player, core = started()
    transact(player, core, P, Q)
    request = EndTxnRequest(
        transactional_id="x", producer_id=core.pair[0], producer_epoch=core.pair[1], committed=ABORT
    )
    assert OK == cluster.ask(cluster.coordinator("x"), request, 2).error_code
    assert ("CompleteAbort", []) == (cluster.state("x"), cluster.described_partitions("x"))
    assert {} == cluster.node(cluster.leader(P)).partitions[P].producers.sessions
    assert ["0:data@0", "1:COMMIT@0", "2:ABORT@0"] == cluster.log(Q)


def test_a_session_of_nothing_is_none() -> None:
    """Chosen: who names nothing, and has no offsets, keeps nothing."""
    cluster, _, core = started()
    producer = Producer(cluster, STYLE)
    producer.pair = core.pair
    producer.begin(P)
    assert OK is ended(cluster, core.pair, COMMIT)
    assert ("CompleteCommit", []) == (cluster.state("x"), cluster.described_partitions("x"))
    assert ErrorCode.INVALID_TXN_STATE is ended(cluster, core.pair, ABORT)


def test_internal_topics_cannot_be_named() -> None:
    """Chosen: no client ends anything in the logs of coordinators."""
    cluster, player, core = started()
    player.do(core.begin([P]))
    assert OK is ended(cluster, core.pair, COMMIT, P, ("__transaction_state", 0))
    assert [P] == cluster.described_partitions("x")


def test_a_topic_that_is_not_there_is_no_obstacle() -> None:
    """Chosen: a partition that does not exist has nothing to end."""
    cluster, player, core = started()
    player.do(core.begin([P]))
    assert OK is ended(cluster, core.pair, COMMIT, P, ("nowhere", 0))
    cluster.world.advance(1_000)
    assert "Ongoing" == cluster.state("x")


# ---------------------------------------------------------------------- Public Interfaces: beginTransaction


def test_what_was_not_registered_is_refused_by_the_client() -> None:
    """Partitions are registered when a transaction begins; the only exception is the offset topic."""
    cluster, player, core = started()
    player.do(core.begin([P]))
    with pytest.raises(ValueError, match=r"t-1 was not registered when the transaction began\."):
        player.do(core.send(*Q, b"a"))
    player.do(core.commit_offsets(GROUP, {P: 3}))
    player.do(core.end(commit=True))
    assert 3 == cluster.offset()


def test_begin_comes_after_init() -> None:
    """Prior to the first invocation of this method you must invoke initTransactions."""
    player = Player(cluster_of(), kind=SessionProducer, level=0)
    with pytest.raises(RuntimeError, match="initTransactions comes first"):
        player.do(player.core.begin([P]))


@FAILOVER
def test_another_producer_fences_it(failover: bool) -> None:
    """ProducerFencedException: the newcomer ends the session in all its partitions, with another epoch."""
    cluster, player, core = started()
    transact(player, core, P, Q)
    player.do(core.send(*P, b"open"))
    if failover:
        cluster.move(cluster.log_of("x"))
    _, newcomer = client(cluster)
    assert (core.pair[0], 2) == newcomer.pair
    assert ["2:data@0", "3:ABORT@1"] == cluster.log(P)[2:]
    assert ["2:ABORT@1"] == cluster.log(Q)[2:]
    with pytest.raises(Refusal, match="INVALID_PRODUCER_EPOCH"):
        player.do(core.produce(Q, [b"zombie"]))
    with pytest.raises(RuntimeError, match="only another one"):
        player.do(core.begin([R]))


# ---------------------------------------------------------------------- what the draft is silent about


@pytest.mark.parametrize("is_open", [False, True], ids=["idle", "open"])
def test_a_session_has_the_time_of_a_transaction(is_open: bool) -> None:
    """Chosen: from the end of one transaction on the next counts as open, and times out; its owner is fenced."""
    cluster = cluster_of(transaction_abort_timed_out_transaction_cleanup_interval_ms=1_000)
    player, core = client(cluster, timeout_ms=10_000)
    transact(player, core, P)
    if is_open:
        player.do(core.send(*P, b"open"))
    cluster.world.advance(20_000)
    assert "CompleteAbort" == cluster.state("x")
    assert cluster.log(P)[-1].endswith("ABORT@1")
    assert cluster.stable(P)[0] == cluster.stable(P)[1]
    with pytest.raises(Refusal, match="INVALID_PRODUCER_EPOCH"):
        player.do(core.send(*P, b"late"))


def test_a_retry_of_an_end_ends_nothing_else() -> None:
    """Chosen: a retry cannot be told from the end of the next transaction; with nothing open that is the same."""
    cluster, player, core = started()
    transact(player, core, P)
    assert OK is ended(cluster, core.pair, COMMIT, P)
    assert OK is ended(cluster, core.pair, ABORT, P)
    assert [b"v"] == cluster.consumed(P)


def test_nothing_is_ended_where_one_may_not_write() -> None:
    """Chosen: EndTxn 3 names topics, so it needs WRITE of each."""
    cluster = cluster_of(authorizer_class_name=AUTHORIZER, topics=("t:3", "u:1"))
    everybody_may(cluster, acl(TRANSACTIONAL_ID, "x", ALL), acl(TOPIC, "t", ALL))
    player, core = client(cluster)
    player.do(core.begin([P]))
    assert ErrorCode.TOPIC_AUTHORIZATION_FAILED is ended(cluster, core.pair, COMMIT, P, ("u", 0))
    assert OK is ended(cluster, core.pair, COMMIT, P)


# ---------------------------------------------------------------------- what the draft would have got wrong


def test_the_next_transaction_joins_the_one_before() -> None:
    """In a session nobody is asked, so nobody waits: while markers are owed a batch is written before the marker."""
    cluster, player, core = started()
    transact(player, core, P)
    held = cluster.hold(ApiKey.WRITE_TXN_MARKERS)
    transact(player, core, P)
    player.do(core.begin([P]))
    player.do(core.send(*P, b"of the next"))
    cluster.release(held)
    player.do(core.end(commit=False))
    assert [b"v", b"v", b"of the next"] == cluster.consumed(P)


def test_a_careful_producer_waits() -> None:
    """Who asks the coordinator at each beginning has it right, and the round trip back."""
    cluster, player, core = started(careful=True)
    transact(player, core, P)
    adds = cluster.watch(ApiKey.ADD_PARTITIONS_TO_TXN)
    late = cluster.hold(ApiKey.WRITE_TXN_MARKERS)
    transact(player, core, P)
    assert 1 == of_clients(adds)
    answer = cluster.pending(cluster.coordinator("x"), adding(core.pair, P), 2, lambda got: got)
    cluster.world.advance(1_000)
    assert not answer.arrived
    cluster.release(late)
    answer.result()
    player.do(core.begin([P]))
    player.do(core.send(*P, b"of the next"))
    player.do(core.end(commit=False))
    assert [b"v", b"v"] == cluster.consumed(P)


def test_a_late_end_ends_the_next_transaction() -> None:
    """The epoch stays, and a session is always open: a copy of EndTxn that comes late commits half of the next one."""
    cluster, player, core = started()
    transact(player, core, P)
    player.do(core.send(*P, b"half"))
    assert OK is ended(cluster, core.pair, COMMIT, P)
    player.do(core.send(*P, b"other half"))
    player.do(core.end(commit=False))
    assert [b"v", b"half"] == cluster.consumed(P)


def test_a_late_batch_joins_the_next_transaction() -> None:
    """What was sent before an abort and comes after it is in the session still: the next transaction commits it."""
    cluster, player, core = started()
    transact(player, core, P)
    on_its_way = cluster.hold(ApiKey.PRODUCE)
    request = core.batch_request(P, [b"aborted"], sequence=1)
    cluster.send(cluster.leader(P), request, 8)
    core.partitions.add(P)
    player.do(core.end(commit=False))
    cluster.release(on_its_way)
    cluster.world.run()
    core.sequences[P] = 2
    transact(player, core, P)
    assert [b"v", b"aborted", b"v"] == cluster.consumed(P)


def test_a_careful_producer_leaves_its_late_batches_behind() -> None:
    """Who ends the session and takes another epoch after an abort has them refused."""
    cluster, player, core = started(careful=True)
    transact(player, core, P)
    player.do(core.begin([P]))
    on_its_way = cluster.hold(ApiKey.PRODUCE)
    late = cluster.pending(
        cluster.leader(P),
        core.batch_request(P, [b"aborted"], sequence=1),
        8,
        lambda got: got.responses[0].partition_responses[0].error_code,
    )
    core.partitions.add(P)
    player.do(core.end(commit=False))
    cluster.release(on_its_way)
    assert OK != late.result()
    transact(player, core, P)
    assert [b"v", b"v"] == cluster.consumed(P)


def test_kafkas_end_txn_3_is_not_understood() -> None:
    """Kafka gave the number to a flexible EndTxn, and no version tells the two apart: the connection is closed."""
    cluster, player, core = started()
    player.do(core.begin([P]))
    request = EndTxnRequest(
        transactional_id="x", producer_id=core.pair[0], producer_epoch=core.pair[1], committed=COMMIT
    )
    flexible = registry.encode(request, 3)
    sim = cluster.world.client(cluster.coordinator("x"))
    header = b"\0\x1a\0\3" + (1).to_bytes(4, "big") + b"\0\1c" + b"\0"
    frame = header + flexible
    sim.send_bytes(len(frame).to_bytes(4, "big") + frame)
    cluster.world.run()
    assert sim.closed
    assert "Ongoing" == cluster.state("x")
