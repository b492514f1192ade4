"""What the later workloads are about takes place in them: ids wear out, are forgotten or fenced; rules have sequels."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest
from msgspec.structs import replace
from tests.sim.late import late_record

from odradek.faults.model import Rule
from odradek.faults.one_line import rule
from odradek.log.producers import ProducerState, Snapshot
from odradek.sim.checks.offsets import offset_at_rest, state_at_rest, used_groups
from odradek.sim.run import Run
from odradek.sim.schedules.schedule import Deed, Schedule
from odradek.sim.workloads.draw import draw
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.fetch_request import FetchRequest
from odradek.wire.messages.heartbeat_request import HeartbeatRequest
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.offset_commit_request import OffsetCommitRequest
from odradek.wire.messages.offset_fetch_request import OffsetFetchRequest
from odradek.wire.messages.produce_request import ProduceRequest
from odradek.wire.messages.txn_offset_commit_request import TxnOffsetCommitRequest

pytestmark = pytest.mark.slow

INVALID_TXN_STATE = ErrorCode.INVALID_TXN_STATE


@cache
def played(workload: str, seed: int = 1) -> Run:
    run = Run(draw(seed, workload))
    run.play()
    return run


def states(run: Run, kind: str = "state_change") -> Counter[object]:
    return Counter(fact.fields.get("state_to") for _, _, fact in run.facts if fact.kind == kind)


def test_epochs_that_are_used_up_bring_other_producer_ids() -> None:
    run = played("worn-epochs")
    ids = {transaction.pair[0] for transaction in run.journal}
    assert max(transaction.pair[1] for transaction in run.journal) >= 32762
    assert len(ids) > len({producer.tid for producer in run.producers})


def test_ids_are_forgotten_and_come_back() -> None:
    run = played("forgotten-ids")
    assert states(run)["Dead"] > 0
    assert states(run)["Empty"] > len({producer.tid for producer in run.producers})


def test_admins_fence_producers() -> None:
    run = played("fencing-admins")
    assert any("is fenced" in what for _, what in run.nemesis.deeds)
    assert sum((producer.met for producer in run.producers), Counter())["EndTxnRequest PRODUCER_FENCED"] > 0


def test_consumers_read_in_sessions() -> None:
    asked = [each.request for each in played("sessions").asked if isinstance(each.request, FetchRequest)]
    assert any(request.session_epoch > 1 for request in asked)
    assert any(request.session_epoch > 0 and not request.topics for request in asked)


def test_members_of_the_newer_protocol_work() -> None:
    run = played("heartbeats")
    assert states(run, "group_state_change")["Reconciling"] > 0
    assert any(each.work is not None and each.outcome == "committed" for each in run.journal)


def with_sequel(to: Rule) -> Schedule:
    schedule = replace(late_record(), verification=True, brokers=2)
    return replace(schedule, deeds=(Deed(at_ms=0, kind="rule", rule=to, lasts_ms=400, then="move a leader"),))


def test_what_follows_from_a_hit_is_done_at_once() -> None:
    [deed] = late_record().deeds
    assert deed.rule is not None
    run = Run(with_sequel(deed.rule))
    run.play()
    hit = next(at for at, _, fact in run.facts if fact.kind == "request" and fact.fields["api"] == "PRODUCE")
    [moved] = [at for at, what in run.nemesis.deeds if what.startswith("t-")]
    assert 0 <= moved - hit <= 10


def test_nothing_follows_without_a_hit() -> None:
    run = Run(with_sequel(rule("FIND_COORDINATOR", delay_ms=1)))
    run.play()
    assert not [what for _, what in run.nemesis.deeds if what.startswith("t-")]


def test_batches_for_several_partitions_go_out_together() -> None:
    asked = [each.request for each in played("late-records").asked if isinstance(each.request, ProduceRequest)]
    assert any(len(request.topic_data[0].partition_data) > 1 for request in asked)


def is_told_that_it_is_too_late(run: Run) -> bool:
    """Whether a producer aborts what it has lost the answer of committing, and hears that it has ended."""
    ends = [(each, each.request) for each in run.asked if isinstance(each.request, EndTxnRequest)]
    lost = {(each.name, end.producer_epoch) for each, end in ends if end.committed and each.response is None}
    told = [each.response for each, end in ends if not end.committed and (each.name, end.producer_epoch) in lost]
    return any(answer is not None and answer.error_code == INVALID_TXN_STATE for answer in told)


def test_producers_change_their_minds_and_are_told_that_it_is_too_late() -> None:
    assert any(is_told_that_it_is_too_late(played("lost-answers", seed)) for seed in range(1, 9))


def test_ids_have_rivals() -> None:
    run = played("rivals")
    assert sum((producer.met for producer in run.producers), Counter())["EndTxnRequest PRODUCER_FENCED"] > 0


def test_segments_end_and_logs_are_compacted() -> None:
    run = Run(replace(draw(1, "general"), segments_ms=300))
    run.play()
    logs = run.world.store.logs()
    assert any(log.first_dirty_offset > 0 for log in logs)
    assert any(len(log.segments) > 1 for log in logs)


def test_ids_that_are_not_known_any_more_are_asked_for_with_what_their_producer_had() -> None:
    run = played("slow-logs", 2)
    who = {producer.name for producer in run.producers if producer.plan.recovers}
    of_them = [each.request for each in run.asked if each.name in who]
    assert any(request.producer_id >= 0 for request in of_them if isinstance(request, InitProducerIdRequest))


def test_two_processes_have_the_name_of_one_static_member() -> None:
    run = played("static-members")
    errors = [
        each.response.error_code for each in run.asked if isinstance(each.request, HeartbeatRequest) and each.response
    ]
    assert ErrorCode.FENCED_INSTANCE_ID in errors
    assert {worker.plan.instance_id for worker in run.workers} == {"static-0", "static-1"}


def test_work_goes_to_another_member_while_the_one_before_stays() -> None:
    run = played("moving-work")
    committed = [
        each for each in run.asked if isinstance(each.request, TxnOffsetCommitRequest) and each.request.member_id
    ]
    refused = [each for each in committed if each.response and each.response.topics[0].partitions[0].error_code]
    assert refused, "nobody was told that the work is somebody else's by now"


def test_leaders_begin_with_markers_that_are_not_replicated(monkeypatch: pytest.MonkeyPatch) -> None:
    restore, begun_with = ProducerState.restore, 0

    def count(state: ProducerState, snapshot: Snapshot) -> None:
        nonlocal begun_with
        begun_with += len(snapshot.unreplicated)
        restore(state, snapshot)

    monkeypatch.setattr(ProducerState, "restore", count)
    Run(draw(3, "unreplicated-markers")).play()
    assert begun_with > 0


def test_offsets_of_a_group_are_committed_while_a_transaction_holds_one() -> None:
    run = played("crossing-offsets")
    told = Counter(
        each.response.topics[0].partitions[0].error_code
        for each in run.asked
        if each.name.startswith("committer") and isinstance(each.request, OffsetFetchRequest) and each.response
    )
    assert told[ErrorCode.UNSTABLE_OFFSET_COMMIT] > 0
    assert told[ErrorCode.NONE] > 0
    plain = [each.request.group_id for each in run.asked if isinstance(each.request, OffsetCommitRequest)]
    assert set(plain) == run.schedule.groups.keys()


def test_offsets_expire_where_days_pass_and_those_that_transactions_hold_do_not() -> None:
    run = played("days-ahead")
    assert run.nemesis.days_passed
    groups = used_groups(run.asked, run.schedule.groups)
    found = {group: (offset_at_rest(run.world, group), state_at_rest(run.world, group)) for group in groups}
    assert any(state == "Dead" for _, state in found.values()), "no group has expired"
    assert {"Empty"} == {state for told, state in found.values() if told.committed_offset >= 0}


def test_leaders_are_refused_what_they_propose_too_late() -> None:
    run = played("late-proposals")
    assert any("ALTER_PARTITION" in what for _, what in run.nemesis.deeds)
    assert run.schedule.lag_ms > 0


def test_brokers_die_and_it_is_noticed_later() -> None:
    run = played("unnoticed-crashes")
    deeds = [what for _, what in run.nemesis.deeds]
    assert any(what.endswith("dies unnoticed") for what in deeds)
    assert any(what.endswith("is noticed") for what in deeds)
    assert frozenset() == run.world.spec.unheard
