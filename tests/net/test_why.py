"""What is stuck in a cluster is said in sentences: since when, who or what holds it, and what ends it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec import Struct
from tests.hub.helpers import Till

from odradek.control.messages.why import Holder, Reason, WhyView
from odradek.control.state import parked_views
from odradek.control.why import AT_REST, OF_A_KIND_MAX, why
from odradek.control.why.event_lines import LINE_MAX, LINES, event_text, newest_lines
from odradek.core.internal_topics import partition_for
from odradek.core.machine import Fact
from odradek.net.client import BlockingClient
from odradek.net.recent import Happened, Recent
from odradek.records.record import Record, build_batch
from odradek.stuck.words import ago, clock, listed, plain
from odradek.testing import Cluster, rule
from odradek.testing.witness import RUNNING
from odradek.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

pytestmark = pytest.mark.slow

GIVEN_UP_S = 0.05


def asked(cluster: Cluster, about: str | None = None) -> WhyView:
    recent = RUNNING[cluster._running]
    return cluster._call(lambda: why(cluster._running, recent, about))


def reason(view: WhyView, about: str) -> Reason:
    [found] = [each for each in view.reasons if each.about == about]
    return found


@contextmanager
def given_up(cluster: Cluster, request: Struct, version: int, broker: int = 0) -> Iterator[None]:
    """A request whose client waits no longer, while its connection stands."""
    client = BlockingClient(cluster.bootstrap.split(",")[broker], client_id="patient", timeout_s=GIVEN_UP_S)
    with client:
        with pytest.raises(TimeoutError):
            client.ask(request, version)
        yield


def opened(cluster: Cluster, transactional_id: str = "till-1") -> Till:
    till = Till(cluster.bootstrap.split(",")[0], transactional_id)
    assert (0, 0) == (till.add(), till.send())
    return till


# ---------------------------------------------------------------------- rules that keep requests


def test_a_forgotten_hold_comes_first_and_is_named_wherever_it_holds_something_up() -> None:
    with Cluster(topics=["t"]) as cluster:
        cluster.add_rule(rule("METADATA", name="other", throttle_ms=1, expect=1))
        cluster.add_rule(rule("END_TXN", name="commit", hold=True))
        till = opened(cluster)
        till.connection._connection.settimeout(GIVEN_UP_S)
        with pytest.raises(TimeoutError):
            till.end()
        cluster.wait(rule={"name": "commit", "held": 1})
        view = asked(cluster)
        assert re.fullmatch(
            r"Rule commit holds END_TXN v3 of till at broker 1 transactional_id=till-1 producer_id=0 for [\d.]+ m?s:"
            r" nobody serves it until the rule is released or removed\.",
            view.sentences[0],
        )
        held = view.reasons[0]
        assert ("rule", "commit", True) == (held.about, held.name, held.stuck)
        assert "the rule is released or removed" == held.ends
        by_rule = Holder(about="rule", name="commit")

        transaction = reason(view, "transaction")
        assert ("till-1", [by_rule]) == (transaction.name, transaction.held_by)
        assert re.fullmatch(
            r"Transaction till-1 is Ongoing for [\d.]+ m?s at broker 1 \(producer 0, epoch 0, t-0\): its END_TXN is"
            r" held by rule commit; if its producer does not end it, the coordinator aborts it in \d+\.\d s\.",
            transaction.sentence,
        )
        partition = reason(view, "partition")
        assert ("t-0", [Holder(about="transaction", name="till-1"), by_rule]) == (partition.name, partition.held_by)
        assert "Consumers (read_committed) of t-0 stop at offset 0 of 1: till-1 is open there since " in (
            partition.sentence
        )
        assert partition.since_ms == transaction.since_ms
        assert held.since_ms is not None
        assert transaction.since_ms is not None
        assert transaction.since_ms <= held.since_ms <= view.now_ms

        assert ["partition"] == [each.about for each in asked(cluster, "t-0").reasons]
        assert ["partition"] == [each.about for each in asked(cluster, "t").reasons]
        assert {"partition", "transaction"} == {each.about for each in asked(cluster, "till-1").reasons}
        assert {"rule", "partition", "transaction"} == {each.about for each in asked(cluster, "commit").reasons}
        assert ["Nothing holds up __transaction_state-0."] == asked(cluster, "__transaction_state-0").sentences
        for nothing in ("t-1", "t-", "nobody", ""):
            with pytest.raises(LookupError, match="there is no rule, partition, transactional id, group or broker"):
                asked(cluster, nothing)

        cluster.release(cluster.add_rule(rule("FETCH", name="none", hold=True)))
        armed = next(each for each in cluster._running.rules if each.name == "commit")
        cluster.release(armed)
        cluster.wait(transaction={"id": "till-1", "state": "CompleteCommit"})
        cluster.wait(partition={"topic": "t", "partition": 0, "last_stable_offset": 2})
        view = asked(cluster)
        assert [] == [each.sentence for each in view.reasons if each.stuck]
        assert AT_REST == view.sentences[-1]
        assert any("Rule commit held one request, the last" in each for each in view.sentences)
        cluster._running.rules.clear()
        till.close()


def test_what_a_rule_drops_or_delays_waits_because_of_it() -> None:
    with Cluster(topics=["t"]) as cluster:
        cluster.add_rules(
            [rule("METADATA", name="lost", drop=True), rule("INIT_PRODUCER_ID", name="late", delay_ms=60_000)]
        )
        init = InitProducerIdRequest(transactional_id="till-1", transaction_timeout_ms=60_000)
        with given_up(cluster, MetadataRequest(topics=[]), 12), given_up(cluster, init, 4):
            cluster.wait(rule={"name": "late"})  # a busy machine reads a request after its client has given up
            dropped, delayed = asked(cluster).sentences[:2]
            assert re.fullmatch(
                r"Rule lost has dropped METADATA v12 of patient at broker 1 [\d.]+ m?s ago: nobody ever answers it\.",
                dropped,
            )
            assert re.fullmatch(
                r"Rule late delays INIT_PRODUCER_ID v4 of patient at broker 1 transactional_id=till-1( producer_id=-1)?"
                r" for [\d.]+ m?s: the rule lets it go on in [56]\d\.\d s\.",
                delayed,
            )
            assert {"lost", "late"} == {view.rule for view in _parked(cluster)}
            assert not [each for each in asked(cluster).reasons if each.about == "request"]
        cluster.wait_for(lambda: not any(view.rule == "lost" for view in _parked(cluster)))


def _parked(cluster: Cluster) -> list[Any]:
    return cluster._call(lambda: parked_views(cluster._running))


def test_of_many_requests_the_longest_held_is_named_and_the_others_are_counted() -> None:
    with Cluster() as cluster:
        cluster.add_rule(rule("METADATA", name="all", times="all", hold=True))
        request = MetadataRequest(topics=[])
        with given_up(cluster, request, 11), given_up(cluster, request, 12), given_up(cluster, request, 12):
            assert "METADATA v11" in asked(cluster).sentences[0]
            assert ", and 2 more: nobody serves them until" in asked(cluster).sentences[0]


def test_what_other_rules_have_seen() -> None:
    with Cluster(topics=["t"]) as cluster, BlockingClient(cluster.bootstrap, client_id="t") as client:
        cluster.add_rules(
            [
                rule("METADATA", name="never", topic="menus", throttle_ms=1, times="all"),
                rule("METADATA", name="away", error="COORDINATOR_NOT_AVAILABLE"),
                rule("END_TXN", name="expected", drop=True, expect=1),
                rule("FETCH", name="idle", drop=True),
            ]
        )
        client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12)
        expected, away, never, idle, rest = asked(cluster).sentences
        assert "Rule expected expects 1 hit and had 0 hits; no request matched." == expected
        assert away.startswith("Rule away answered COORDINATOR_NOT_AVAILABLE to one request, the last ")
        assert never.startswith("Rule never has hit no request: none matched. Nearest: METADATA v12 of t at broker 1")
        assert "topic: it has t, not menus" in never
        assert "Rule idle has hit no request: none matched." == idle
        assert AT_REST == rest
        cluster._running.rules.clear()


# ---------------------------------------------------------------------- transactions and partitions


def test_markers_that_are_owed() -> None:
    with Cluster(topics=["t"]) as cluster:
        cluster.add_rule(rule("WRITE_TXN_MARKERS", name="markers", hold=True))
        till = opened(cluster)
        assert 0 == till.end()
        cluster.wait(rule={"name": "markers", "held": 1})
        view = asked(cluster, "till-1")
        assert "is PrepareCommit for " in reason(view, "transaction").sentence
        assert reason(view, "transaction").sentence.endswith(
            "it waits for its marker in t-0; its WRITE_TXN_MARKERS is held by rule markers."
        )
        assert "till-1 is PrepareCommit, and its marker is not written there yet; its WRITE_TXN_MARKERS is held by" in (
            reason(view, "partition").sentence
        )
        assert "its marker is written" == reason(view, "partition").ends
        till.close()


def test_a_transaction_that_no_coordinator_knows_hangs() -> None:
    config = {"transaction.partition.verification.enable": False}
    with Cluster(topics=["t"], config=config) as cluster, BlockingClient(cluster.bootstrap, client_id="t") as client:
        records = build_batch(
            [Record(timestamp=0, value=b"x")], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
        )
        data = PartitionProduceData(index=0, records=memoryview(records))
        topics = [TopicProduceData(name="t", partition_data=[data])]
        produce = ProduceRequest(transactional_id="gone", acks=-1, timeout_ms=30_000, topic_data=topics)
        assert 0 == client.ask(produce, 11).responses[0].partition_responses[0].error_code
        till = opened(cluster)  # another transaction, which is known, does not hold anything up here
        hanging, known = asked(cluster).reasons
        assert "till-1" == known.name
        assert (
            "Consumers (read_committed) of t-0 stop at offset 0 of 2: producer 7 has a transaction open there that no"
            " coordinator knows, so that it hangs." == hanging.sentence
        )
        assert [Holder(about="producer", name="7")] == hanging.held_by
        assert hanging.ends is not None
        assert "kafka-transactions" in hanging.ends
        till.close()


def test_a_marker_that_not_every_replica_has() -> None:
    config = {"transaction.state.log.replication.factor": 1}
    with Cluster(brokers=2, topics=["t:1:2"], config=config) as cluster:
        cluster.move_leader("t", 0, to=1)
        till = opened(
            cluster, next(name for name in map("till-{}".format, range(99)) if _coordinator(cluster, name) == 1)
        )
        cluster.set_replica_lag(2, None)
        assert 0 == till.end()
        cluster.wait_for(lambda: _ended(cluster))
        lagging = reason(asked(cluster, "t-0"), "partition")
        assert "a marker is written there, and not every replica in sync has it." in lagging.sentence
        assert "the replicas in sync acknowledge the marker" == lagging.ends
        till.close()


def _coordinator(cluster: Cluster, transactional_id: str) -> int:
    topic = cluster._node().image.topics["__transaction_state"]
    return topic.partitions[partition_for(transactional_id, len(topic.partitions))].leader


def _ended(cluster: Cluster) -> bool:
    return bool(cluster._call(lambda: cluster._node(1).partitions["t", 0].producers.unreplicated))


def test_of_very_many_transactions_some_are_told_and_the_others_counted() -> None:
    with Cluster(topics=["t"]) as cluster:
        tills = [Till(cluster.bootstrap, f"till-{number}") for number in range(OF_A_KIND_MAX + 3)]
        assert {0} == {till.add() for till in tills}
        view = asked(cluster)
        told = [each for each in view.sentences if each.startswith("Transaction till-")]
        assert OF_A_KIND_MAX == len(told)
        assert "There is more to say of 3 transactions." == view.sentences[-1]
        assert OF_A_KIND_MAX + 3 == len(view.reasons)
        for till in tills:
            till.close()


# ---------------------------------------------------------------------- groups, requests, brokers, time


def joining(group: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def test_a_group_that_waits_for_a_member_and_a_member_that_waits_for_a_group() -> None:
    with (
        Cluster(config={"group.initial.rebalance.delay.ms": 0}) as cluster,
        BlockingClient(cluster.bootstrap, client_id="fast") as client,
    ):
        member = client.ask(joining("kitchen"), 3).member_id
        [completing] = asked(cluster, "kitchen").sentences
        assert re.fullmatch(
            rf"Group kitchen is CompletingRebalance with 1 member at broker 1: it waits for {member}, and goes on"
            r" without it in \d+\.\d s\.",
            completing,
        )
        with given_up(cluster, joining("kitchen"), 3):
            view = asked(cluster)
            assert f"is PreparingRebalance with 2 members at broker 1: it waits for {member}, and" in (
                reason(view, "group").sentence
            )
            assert re.fullmatch(
                r"JOIN_GROUP v3 of patient at broker 1 group=kitchen waits for the other members of its group to"
                r" join for [\d.]+ m?s\.",
                reason(view, "request").sentence,
            )


def test_a_consumer_that_listens_is_not_stuck() -> None:
    with Cluster(topics=["t"]) as cluster:
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        fetch = FetchRequest(
            max_wait_ms=60_000,
            min_bytes=1,
            max_bytes=1000,
            session_epoch=-1,
            topics=[FetchTopic(topic="t", partitions=[partition])],
        )
        with given_up(cluster, fetch, 12):
            view = asked(cluster)
            assert not reason(view, "request").stuck
            assert re.search(
                r"^FETCH v12 of patient at broker 1 topic=t partition=0 waits for records of t-0 for [\d.]+ m?s, and"
                r" [56]\d\.\d s longer at most\.$",
                view.sentences[0],
            )
            assert AT_REST == view.sentences[1]


def test_brokers_that_are_away_and_a_clock_that_stands_still() -> None:
    with Cluster(brokers=3, topics=["t:1:1"]) as cluster:
        leader = cluster.leader("t", 0)
        other = next(each for each in cluster.broker_ids if each not in (leader, 1))
        cluster.stop_broker(leader)
        cluster.pause_broker(other)
        cluster.freeze()
        view = asked(cluster)
        partition = reason(view, "partition")
        assert f"No broker leads t-0: broker {leader} with replicas of it is stopped." == partition.sentence
        assert [Holder(about="broker", name=str(leader))] == partition.held_by
        assert f"Broker {leader} is stopped until it is started." in view.sentences
        assert f"Broker {other} is paused: it hears nothing until it is resumed." in view.sentences
        assert "nothing times out until it is advanced or resumed." in reason(view, "time").sentence
        assert {"partition", "broker"} == {each.about for each in asked(cluster, str(leader)).reasons}
        cluster.resume_broker(other)
        cluster.resume()


def test_nothing_is_stuck() -> None:
    with Cluster() as cluster:
        view = asked(cluster)
        assert ([], [AT_REST], []) == (view.reasons, view.sentences, view.events)


# ---------------------------------------------------------------------- words and lines


def test_names_of_clients_stay_on_their_line() -> None:
    hostile = "till\n\x1b[31m<img onerror=…>" + "x" * 10_000
    with Cluster(topics=["t"]) as cluster:
        cluster.add_rule(rule("END_TXN", name="commit\n", hold=True))
        till = opened(cluster, hostile)
        till.connection._connection.settimeout(GIVEN_UP_S)
        with pytest.raises(TimeoutError):
            till.end()
        view = asked(cluster)
        assert hostile == reason(view, "transaction").name
        for line in (*view.sentences, *view.events):
            assert line.isprintable()
            assert len(line) < 700
        till.close()


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (-5, "0 ms"),
        (350, "350 ms"),
        (2_140, "2.1 s"),
        (119_900, "119.9 s"),
        (125_000, "2 min 5 s"),
        (5_400_000, "90 min 0 s"),
        (9_000_000, "2 h 30 min"),
        (190_800_000, "2 d 5 h"),
    ],
)
def test_how_long_something_takes(milliseconds: int, text: str) -> None:
    assert text == ago(milliseconds)


def test_times_and_names() -> None:
    assert "00:00:01.005" == clock(1_005)
    assert "1970-01-02 00:00:00.000" == clock(86_400_000, day=True)
    assert f"{1 << 62} ms" == clock(1 << 62)
    assert "a\\nb\\x1b" == plain("a\nb\x1b")
    assert "aaaa…" == plain("a" * 9, 5)
    assert "a, b, c" == listed(["a", "b", "c"])
    assert "a, b, c and 2 more" == listed(["a", "b", "c", "d", "e"])


def test_an_event_is_a_line() -> None:
    def line(kind: str, **fields: object) -> str:
        return event_text(Happened(1, 0, 1_005, 2, Fact(kind, fields)))

    asked = {"api": "END_TXN", "version": 5, "correlation": 3, "client_id": "till", "from_broker": False}
    assert "00:00:01.005 broker 2 request END_TXN v5 of till" == line("request", **asked)
    assert "request FETCH v1 of a client" in line("request", api="FETCH", version=1, client_id=None, from_broker=False)
    assert "request FETCH v1 of a broker" in line("request", api="FETCH", version=1, client_id=None, from_broker=True)
    answered = asked | {"error": "PRODUCER_FENCED", "duration_ns": 0}
    assert line("response", **answered).endswith("response END_TXN v5 of till error=PRODUCER_FENCED")
    changed = line("state_change", transactional_id="till-1", state_from="Ongoing", state_to="PrepareCommit", tv=2)
    assert changed.endswith("state_change transactional_id=till-1 tv=2 Ongoing to PrepareCommit")
    assert line("state_change", transactional_id="a", state_to="Empty").endswith("transactional_id=a to Empty")
    assert line("lso_moved", topic="t", partition=3, hw=2, lso=1).endswith("lso_moved t-3 hw=2 lso=1")
    assert LINE_MAX == len(line("state_change", **{str(number): "x" * 60 for number in range(9)}))


def test_the_newest_events_are_those_since_the_start() -> None:
    recent = Recent(lambda: 0, size=50)
    recent.emit(1, [Fact("leadership_taken", {"topic": "t", "partition": 0})])
    recent.started(lambda: 1)
    assert [] == newest_lines(recent)
    internal = Fact("lso_moved", {"topic": "__transaction_state", "partition": 0, "hw": 1, "lso": 1})
    recent.emit(1, [Fact("fenced", {"tv": 0}), internal])
    assert ["00:00:00.001 broker 1 fenced tv=0"] == newest_lines(recent)
    recent.emit(1, [Fact("response", {"api": "END_TXN", "version": 5, "error": error}) for error in ("NONE", "X")])
    assert ["fenced tv=0", "response END_TXN v5 of a client error=X"] == [
        text.partition("broker 1 ")[2] for text in newest_lines(recent)
    ]
    recent.emit(1, [Fact("fenced", {"tv": number}) for number in range(100)])
    assert LINES == len(newest_lines(recent))
    assert newest_lines(recent)[-1].endswith("fenced tv=99")
    assert (56, 105) == (recent.first, recent.last)


def test_what_is_kept_is_bounded_however_it_is_told() -> None:
    recent = Recent(lambda: 0, size=50)
    for number in range(100):
        recent.emit(1, [Fact("fenced", {"tv": number})])
    recent.emit(1, [Fact("fenced", {"tv": number}) for number in range(49)])
    assert (100, 149) == (recent.first, recent.last)
    assert 50 == sum(len(facts) for *_, facts in recent._kept)
    assert [99, *range(49)] == [each.fact.fields["tv"] for each in recent.after(0)]
