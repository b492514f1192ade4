"""Offsets of groups that several clients commit: which of them a reader may be told, and when none."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec import Struct

from odradek.core.machine import Fact
from odradek.sim.checks.offsets import Told, shared_offset_problems, used_groups
from odradek.sim.findings.story import tell
from odradek.sim.model.promises import PROMISES, Problem, Violation
from odradek.sim.run import Run
from odradek.sim.schedules.schedule import Player, Schedule, Send, Txn
from odradek.sim.world.actors import Asked, Moment
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.end_txn_response import EndTxnResponse
from odradek.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.wire.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from odradek.wire.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from odradek.wire.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.wire.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

GROUP = "shared"
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


class History:
    """What clients asked and were told, one thing after the other, ten milliseconds apart."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.facts: list[tuple[int, int, Fact]] = []
        self.at_rest: list[Told] = []
        self.days_passed: list[int] = []
        self._moments = 0

    @property
    def now(self) -> int:
        return 10 * self._moments

    def moment(self) -> Moment:
        self._moments += 1
        return len(self.facts), self._moments

    def ask(self, request: Struct, version: int = 7) -> Asked:
        began = self.moment()
        self.asked.append(Asked("c", self.now, 1, request, version, began=began))
        return self.asked[-1]

    def answer(self, asked: Asked, response: Struct | None) -> None:
        asked.ended = self.moment()
        asked.ended_at, asked.response = self.now, response

    def asks_to_commit(self, name: str, tid: str = "") -> Asked:
        if tid:
            of_transaction = TxnOffsetCommitRequestPartition(committed_metadata=name)
            topics = [TxnOffsetCommitRequestTopic(name="t", partitions=[of_transaction])]
            return self.ask(TxnOffsetCommitRequest(transactional_id=tid, group_id=GROUP, topics=topics))
        partition = OffsetCommitRequestPartition(committed_metadata=name)
        return self.ask(OffsetCommitRequest(GROUP, topics=[OffsetCommitRequestTopic("t", partitions=[partition])]))

    def commits(
        self, name: str, tid: str = "", error: ErrorCode | None = ErrorCode.NONE, *, begins: bool = True
    ) -> None:
        if tid and error is ErrorCode.NONE and begins:
            self.goes_into(tid, "Ongoing")
        asked = self.asks_to_commit(name, tid)
        if error is None:
            self.answer(asked, None)
        elif tid:
            of_transaction = TxnOffsetCommitResponsePartition(error_code=error)
            topics = [TxnOffsetCommitResponseTopic(name="t", partitions=[of_transaction])]
            self.answer(asked, TxnOffsetCommitResponse(topics=topics))
        else:
            partition = OffsetCommitResponsePartition(error_code=error)
            answered = [OffsetCommitResponseTopic("t", partitions=[partition])]
            self.answer(asked, OffsetCommitResponse(topics=answered))

    def goes_into(self, tid: str, *states: str) -> None:
        for state in states:
            self.facts.append((self.now, 1, Fact("state_change", {"transactional_id": tid, "state_to": state})))

    def takes_over(self) -> None:
        self.facts.append((self.now, 2, Fact("leadership_taken", {"topic": "__transaction_state", "partition": 0})))

    def ends(self, tid: str, *states: str, commit: bool = True) -> None:
        asked = self.ask(EndTxnRequest(transactional_id=tid, committed=commit))
        how = "Commit" if commit else "Abort"
        self.goes_into(tid, *(states or (f"Prepare{how}", f"Complete{how}")))
        self.answer(asked, EndTxnResponse())

    def is_told(self, name: str = "", error: ErrorCode = ErrorCode.NONE, *, stable: bool = False) -> None:
        wanted = OffsetFetchRequestTopic("t", [0])
        asked = self.ask(OffsetFetchRequest(group_id=GROUP, topics=[wanted], require_stable=stable))
        offset = 3 if name else -1
        partition = OffsetFetchResponsePartition(committed_offset=offset, metadata=name, error_code=error)
        self.answer(asked, OffsetFetchResponse(topics=[OffsetFetchResponseTopic("t", [partition])]))

    def rests(self, name: str = "", error: ErrorCode = ErrorCode.NONE, *, state: str = "Empty") -> None:
        now, offset = self.moment(), 3 if name else -1
        self.at_rest.append(Told(GROUP, now, now, self.now, True, error, offset, name, state))

    @property
    def problems(self) -> list[str]:
        found = shared_offset_problems(self.asked, self.facts, [GROUP], self.at_rest, days_passed=self.days_passed)
        names = [each.name for each in found]
        assert {*names} <= PROMISES.keys()
        return names


def test_whatever_was_written_last_counts() -> None:
    history = History()
    history.is_told()
    history.commits("a")
    history.is_told("a")
    history.commits("b")
    history.is_told("b")
    assert [] == history.problems
    history.is_told("a")
    assert ["older offset"] == history.problems


def test_an_offset_that_comes_into_force_later_does_not_win() -> None:
    history = History()
    history.commits("held", "x")
    history.commits("plain")
    history.ends("x")
    history.is_told("plain")
    assert [] == history.problems
    history.is_told("held")
    assert ["older offset"] == history.problems


def test_of_two_that_may_be_written_in_either_order_either_counts() -> None:
    history = History()
    first = history.asks_to_commit("first")
    history.commits("second")
    answer = OffsetCommitResponse(topics=[OffsetCommitResponseTopic("t", partitions=[OffsetCommitResponsePartition()])])
    history.answer(first, answer)
    history.is_told("first")
    history.is_told("second")
    assert [] == history.problems


@pytest.mark.parametrize(
    ("error", "names"),
    [(None, []), (ErrorCode.NOT_COORDINATOR, []), (ErrorCode.CONCURRENT_TRANSACTIONS, ["older offset"])],
)
def test_what_is_asked_for_again_may_be_written_twice(error: ErrorCode | None, names: Sequence[str]) -> None:
    history = History()
    history.commits("again", "x", error)
    history.commits("again", "x")
    history.commits("plain")
    history.ends("x")
    history.is_told("again")
    assert names == history.problems


def test_an_offset_that_a_transaction_holds_does_not_count_yet() -> None:
    history = History()
    history.ends("x")
    history.commits("held", "x")
    history.is_told("held")
    history.ends("x")
    assert ["wrong group offset"] == history.problems


def test_an_offset_of_a_transaction_that_aborts_never_counts() -> None:
    history = History()
    history.commits("held", "x")
    history.ends("x", "PrepareAbort", "CompleteAbort")
    history.is_told("held")
    assert ["wrong group offset"] == history.problems


def test_an_offset_that_nobody_has_committed_is_not_told() -> None:
    history = History()
    history.commits("a")
    history.is_told("b")
    assert ["wrong group offset"] == history.problems


def test_none_is_stable_while_a_transaction_holds_one() -> None:
    history = History()
    history.commits("plain")
    history.commits("held", "x")
    history.is_told("plain")
    history.is_told(error=UNSTABLE, stable=True)
    assert [] == history.problems
    history.is_told("plain", stable=True)
    assert ["unstable offset"] == history.problems


def test_one_is_stable_as_soon_as_the_transaction_may_be_over() -> None:
    history = History()
    history.commits("plain")
    history.commits("held", "x")
    # By its timeout, or for another instance: nobody asks for it.
    history.goes_into("x", "PrepareAbort")
    history.is_told("plain", stable=True)
    history.is_told(error=UNSTABLE, stable=True)
    assert [] == history.problems


def test_one_that_was_written_while_markers_were_on_their_way_may_be_over_at_any_time() -> None:
    history = History()
    history.commits("plain")
    history.goes_into("x", "Ongoing", "PrepareAbort")
    history.commits("held", "x", begins=False)
    history.is_told("plain", stable=True)
    history.is_told(error=UNSTABLE, stable=True)
    history.goes_into("x", "CompleteAbort")
    assert [] == history.problems
    history.is_told(error=UNSTABLE, stable=True)
    assert ["hanging transaction"] == history.problems


def test_after_another_coordinator_has_taken_over_nobody_knows_what_is_open() -> None:
    history = History()
    history.commits("plain")
    history.goes_into("x", "Ongoing")
    history.takes_over()
    history.commits("held", "x", begins=False)
    history.is_told("plain", stable=True)
    assert [] == history.problems


def test_one_is_stable_when_every_transaction_is_over() -> None:
    history = History()
    history.commits("held", "x")
    history.commits("other", "y")
    history.ends("x")
    history.is_told(error=UNSTABLE, stable=True)
    history.ends("y", commit=False)
    assert [] == history.problems
    history.is_told(error=UNSTABLE, stable=True)
    assert ["hanging transaction"] == history.problems


def test_one_that_was_not_answered_may_be_held_at_any_time() -> None:
    history = History()
    history.commits("held", "x", None)
    history.ends("x", commit=False)
    history.is_told(error=UNSTABLE, stable=True)
    assert [] == history.problems
    history.rests(error=UNSTABLE)
    assert ["hanging transaction"] == history.problems


def test_an_offset_that_counts_is_not_lost() -> None:
    history = History()
    history.commits("held", "x")
    history.is_told()
    history.ends("x")
    history.is_told("held")
    assert [] == history.problems
    history.is_told()
    assert ["lost offset"] == history.problems


def test_an_offset_may_expire_when_days_pass_and_one_that_is_held_may_not() -> None:
    history = History()
    history.commits("held", "x")
    history.days_passed.append(history.now)
    for _ in range(6):
        history.moment()
    history.ends("x")
    history.is_told()
    assert ["lost offset"] == history.problems
    history.moment()
    history.days_passed.append(history.now)
    history.is_told()
    assert ["lost offset"] == history.problems


def test_a_group_stays_as_long_as_its_offset() -> None:
    history = History()
    history.commits("a")
    history.rests("a")
    assert [] == history.problems
    history.rests("a", state="Dead")
    assert ["lost offset"] == history.problems


def test_what_a_coordinator_that_took_over_does_not_tell_is_not_guessed() -> None:
    history = History()
    history.commits("plain")
    history.commits("held", "x")
    history.ends("x", "Ongoing")
    history.is_told("held")
    history.is_told("plain")
    assert [] == history.problems


def test_whose_transaction_was_fenced_off_does_not_commit_whatever_it_asked_for() -> None:
    history = History()
    history.commits("held", "x")
    history.ends("x", "PrepareEpochFence", "PrepareAbort", "CompleteAbort")
    history.is_told("held")
    assert ["wrong group offset"] == history.problems


HELD = Txn(sends=(Send(partition=0),), groups=("shared", "fresh"), rests_ms=300)


def held() -> Run:
    """Two producers commit offsets of one group, and a client does so without a transaction."""
    players = tuple(
        Player(name=f"p{number}", transactional_id=f"id-{number}", transactions=(HELD, HELD)) for number in range(2)
    )
    return Run(Schedule(seed=1, brokers=1, replicas=1, duration_ms=900, committers=1, players=players))


def test_clients_commit_and_read_offsets_of_groups_that_several_transactions_use() -> None:
    run = held()
    assert {"fresh": 4, "shared": 4} == run.schedule.groups
    run.play()
    assert ["fresh", "shared"] == used_groups(run.asked, run.schedule.groups)
    told = {
        type(each.request).__name__ for each in run.asked if each.name == "committer-0" and each.response is not None
    }
    assert {"OffsetCommitRequest", "OffsetFetchRequest"} == told


def test_a_story_tells_who_has_committed_what_and_who_was_told_of_it() -> None:
    run = held()
    run.play()
    story = tell(run, Violation([Problem("older offset", "")], at_ms=0), repeat="")
    lines = [line.what for line in story.lines]
    assert any(line.startswith("TxnOffsetCommit of shared as p0/") for line in lines)
    assert any(line.startswith("OffsetCommit of shared as c0/") for line in lines)
    assert any(line.startswith(("OffsetFetch of shared; told p", "OffsetFetch of shared; told c")) for line in lines)
