"""Offsets of groups that several clients commit, with transactions and without.

Of two offsets in force the one counts that was written later, not the one that came into force later (KIP-98): after a
compaction the log shows only that order. A request for stable offsets waits while any transaction holds one (KIP-447).

The requests and responses of clients and the events of transactions give the earliest and latest time at which each
commit was written and came into force. The metadata of a commit is a unique name, which readers get with the offset.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from odradek.core.internal_topics import CoordinatorKind, partition_for
from odradek.core.machine import Fact
from odradek.sim.model.model import Fields
from odradek.sim.model.promises import Problem
from odradek.sim.world.actors import Asked, Moment
from odradek.sim.world.world import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.describe_groups_request import DescribeGroupsRequest
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.offset_commit_request import OffsetCommitRequest
from odradek.wire.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.wire.messages.offset_fetch_response import OffsetFetchResponsePartition, OffsetFetchResponsePartitions
from odradek.wire.messages.txn_offset_commit_request import TxnOffsetCommitRequest

__all__ = ["Told", "offset_at_rest", "shared_offset_problems", "state_at_rest", "told_at_rest", "used_groups"]

NEVER: Moment = (2**63, 0)
EXPIRY_MS = 50
"""How long a coordinator may take to remove expired offsets after its clock was set."""
DESCRIBE_VERSION = 5
DEAD = "Dead"
STABLE_SINCE = 7
"""First version of OffsetFetch with require_stable (KIP-447)."""
NOT_WRITTEN = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS})
"""Errors after which a commit is sent again; the first one is not in the log."""
COMMITS: Mapping[str, bool] = {
    "PrepareCommit": True,
    "CompleteCommit": True,
    "PrepareAbort": False,
    "CompleteAbort": False,
}
BEGUN = "Ongoing"
FENCING = "PrepareEpochFence"
NOT_KNOWN = ""
"""Another coordinator has taken over, so the state is unknown."""
OVER = frozenset({"CompleteCommit", "CompleteAbort", "Empty", BEGUN, "Dead"})
"""States in which the last transaction is over."""


class Told(Struct, frozen=True):
    """An answer about the offset of a group, with the moments of its request and response."""

    group: str
    began: Moment
    ended: Moment
    ended_at: int
    """Virtual ms of the response."""
    stable: bool
    """Whether the request had require_stable."""
    error: int
    offset: int = -1
    name: str = ""
    """The name of the commit; empty if there is no offset."""
    state: str = ""
    """State of the group, if the client asked for it too."""


class _Commit(Struct):
    name: str
    group: str
    transactional_id: str
    """Empty if it is in no transaction."""
    began: Moment
    answered: Moment = NEVER
    """It was written by then."""
    answered_at: int = 0
    """The same, as virtual ms."""
    last: Moment = NEVER
    """It was not written later than this."""
    may_come: bool = False
    """Whether one of its requests had no answer."""
    open_until: Moment = NEVER
    """Its transaction was not decided before this."""
    decided_at: int = 0
    """The same, as virtual ms."""
    commits: bool | None = None
    """Whether its transaction commits; None if unknown."""
    over: Moment = NEVER
    """Its transaction was over by then."""
    in_force: Moment = NEVER
    """It was in force by then."""


def used_groups(asked: Sequence[Asked], groups: Collection[str]) -> list[str]:
    """The groups, in order, for which a client has committed an offset or tried to."""
    commits = (each.request for each in asked if isinstance(each.request, OffsetCommitRequest | TxnOffsetCommitRequest))
    return sorted({request.group_id for request in commits if request.group_id in groups})


def offset_at_rest(world: World, group: str) -> OffsetFetchResponsePartitions:
    """The offset of a group in t-0, asked of its coordinator when everything is at rest."""
    wanted = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[wanted])], require_stable=True)
    coordinator = _coordinator_of(world, group)
    [answer] = world.client(coordinator).ask(request, 8).groups
    if answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        # No client has asked this coordinator yet, so it may still load.
        world.advance(1_000)
        [answer] = world.client(coordinator).ask(request, 8).groups
    [[result]] = [topic.partitions for topic in answer.topics]
    found: OffsetFetchResponsePartitions = result
    return found


def state_at_rest(world: World, group: str) -> str:
    """The state of a group, by DescribeGroups."""
    client = world.client(_coordinator_of(world, group))
    [described] = client.ask(DescribeGroupsRequest(groups=[group]), DESCRIBE_VERSION).groups
    state: str = described.group_state
    return state


def told_at_rest(world: World, groups: Iterable[str], moment: Callable[[], Moment]) -> list[Told]:
    """The answers about these groups when everything has come to rest; `moment` gives the present moment."""
    told = []
    for group in groups:
        found, now = offset_at_rest(world, group), moment()
        told.append(
            Told(
                group=group,
                began=now,
                ended=now,
                ended_at=world.now,
                stable=True,
                error=found.error_code,
                offset=found.committed_offset,
                name=found.metadata or "",
                state=state_at_rest(world, group),
            )
        )
    return told


def _coordinator_of(world: World, group: str) -> int:
    image = world.nodes[world.spec.controller_id].image
    partition = image.partition(CoordinatorKind.GROUP.topic, partition_for(group, 3))
    assert partition is not None
    return partition.leader


def shared_offset_problems(
    asked: Sequence[Asked],
    facts: Iterable[tuple[int, int, Fact]],
    groups: Collection[str],
    at_rest: Sequence[Told],
    *,
    days_passed: Sequence[int] = (),
) -> Iterator[Problem]:
    """Answers about these groups that do not follow from the commits; `at_rest` are the answers in the end.

    `days_passed`: times at which a clock was set so far ahead that offsets may have expired.
    """
    if not groups:
        return
    ends = _ends(asked)
    commits = _commits(asked, facts, groups, ends)
    for told in (*_told(asked, groups), *at_rest):
        of_group = commits.get(told.group, {})
        if told.error == ErrorCode.NONE:
            yield from _problems_of(told, of_group, ends, days_passed)
        elif told.error == ErrorCode.UNSTABLE_OFFSET_COMMIT and not _may_be_held(told, of_group.values()):
            yield Problem("hanging transaction", f"{told.group} has no stable offset, and no transaction holds one")
    for told in at_rest:
        if told.state == DEAD and told.offset >= 0:
            yield Problem("lost offset", f"{told.group} is gone, and its offset is that of {told.name}")
        if told.error != ErrorCode.NONE:
            seen = f"{told.group} is told {ErrorCode(told.error).name} when every transaction is over"
            yield Problem("hanging transaction", seen)


def _problems_of(
    told: Told, commits: Mapping[str, _Commit], ends: Mapping[str, Sequence[Asked]], days_passed: Sequence[int]
) -> Iterator[Problem]:
    in_force = [
        each
        for each in commits.values()
        if each.in_force < told.began and not _may_have_expired(each, told.ended_at, days_passed)
    ]
    own = commits.get(told.name)
    if own is None:
        if told.offset >= 0:
            yield Problem("wrong group offset", f"{told.group} is at {told.offset}, which nobody has committed")
        elif in_force:
            yield Problem("lost offset", f"{told.group} has no offset, and {in_force[-1].name} has committed one")
    else:
        if own.transactional_id and not _may_count(own, told, ends.get(own.transactional_id, ())):
            seen = f"{told.group} is told the offset of {own.name}, whose transaction has not committed"
            yield Problem("wrong group offset", seen)
        newer = [each for each in in_force if each.began > own.last]
        if newer:
            seen = f"{told.group} is told the offset of {own.name}, and {newer[-1].name} has written one after it"
            yield Problem("older offset", seen)
    if told.stable:
        for each in commits.values():
            if each.transactional_id and each.answered < told.began and each.open_until > told.ended:
                seen = f"{told.group} is told that an offset is stable while the transaction of {each.name} holds one"
                yield Problem("unstable offset", seen)


def _may_be_held(told: Told, commits: Iterable[_Commit]) -> bool:
    """Whether a transaction may hold an offset of the group. A commit without an answer may be written at any time."""
    return any(each.transactional_id and each.began < told.ended and each.over > told.began for each in commits)


def _may_have_expired(commit: _Commit, until: int, days_passed: Sequence[int]) -> bool:
    """Whether a clock was set days ahead while it was in force, or about to be."""
    return any(commit.decided_at - EXPIRY_MS <= at <= until for at in days_passed)


def _may_count(commit: _Commit, told: Told, ends: Iterable[Asked]) -> bool:
    """Whether a commit of its transaction was asked for before the answer, and the transaction was not aborted."""
    return commit.commits is not False and any(
        isinstance(each.request, EndTxnRequest) and each.request.committed and commit.began < each.began < told.ended
        for each in ends
    )


def _told(asked: Sequence[Asked], groups: Collection[str]) -> Iterator[Told]:
    for each in asked:
        request = each.request
        if not isinstance(request, OffsetFetchRequest) or request.group_id not in groups:
            continue
        if each.response is None or each.ended_at is None or each.response.error_code != ErrorCode.NONE:
            continue
        answer: OffsetFetchResponsePartition = each.response.topics[0].partitions[0]
        yield Told(
            group=request.group_id,
            began=each.began,
            ended=each.ended,
            ended_at=each.ended_at,
            stable=request.require_stable and each.version >= STABLE_SINCE,
            error=answer.error_code,
            offset=answer.committed_offset,
            name=answer.metadata or "",
        )


def _ends(asked: Sequence[Asked]) -> dict[str, list[Asked]]:
    """Requests that end the transactions of each transactional id."""
    ends: dict[str, list[Asked]] = {}
    for each in asked:
        if isinstance(each.request, EndTxnRequest | InitProducerIdRequest):
            ends.setdefault(each.request.transactional_id or "", []).append(each)
    return ends


def _commits(
    asked: Sequence[Asked],
    facts: Iterable[tuple[int, int, Fact]],
    groups: Collection[str],
    ends: Mapping[str, Sequence[Asked]],
) -> dict[str, dict[str, _Commit]]:
    """The commits, by group and name, in the order of their requests."""
    found: dict[str, dict[str, _Commit]] = {}
    for each in asked:
        request = each.request
        if not isinstance(request, OffsetCommitRequest | TxnOffsetCommitRequest) or request.group_id not in groups:
            continue
        name = request.topics[0].partitions[0].committed_metadata or ""
        tid = request.transactional_id if isinstance(request, TxnOffsetCommitRequest) else ""
        own = found.setdefault(request.group_id, {})
        _take_answer(own.setdefault(name, _Commit(name, request.group_id, tid, each.began)), each)
    states = _states(facts)
    for commit in (each for own in found.values() for each in own.values()):
        if commit.answered == NEVER:
            continue
        if commit.transactional_id:
            _decide(commit, ends.get(commit.transactional_id, ()), states.get(commit.transactional_id, ()))
        else:
            commit.in_force, commit.decided_at = commit.answered, commit.answered_at
    return found


def _take_answer(commit: _Commit, asked: Asked) -> None:
    error = None if asked.response is None else asked.response.topics[0].partitions[0].error_code
    if error == ErrorCode.NONE and asked.ended_at is not None:
        commit.answered, commit.answered_at = asked.ended, asked.ended_at
        commit.last = NEVER if commit.may_come else asked.ended
    elif error not in NOT_WRITTEN:
        commit.may_come = True


def _states(facts: Iterable[tuple[int, int, Fact]]) -> dict[str, list[tuple[Moment, int, str]]]:
    """State changes of each transactional id, in order."""
    states: dict[str, list[tuple[Moment, int, str]]] = {}
    for number, (at, _, fact) in enumerate(facts, 1):
        fields: Fields = fact.fields
        if fact.kind == "state_change":
            states.setdefault(fields["transactional_id"], []).append(((number, 0), at, fields["state_to"]))
        elif fact.kind == "leadership_taken" and fields["topic"] == CoordinatorKind.TRANSACTION.topic:
            for of_id in states.values():
                of_id.append(((number, 0), at, NOT_KNOWN))
    return states


def _decide(commit: _Commit, ends: Sequence[Asked], states: Sequence[tuple[Moment, int, str]]) -> None:
    """Find the outcome of the transaction that was open when the commit was answered.

    If none was open, the commit may have been written while the markers of its transaction were in flight: then it is
    only known to be over at the next event of the id. A coordinator that takes over emits no events for the state in
    its log, so after a takeover the next event shows no more than that, either.
    """
    before = [state for moment, _, state in states if moment < commit.answered]
    since = [each for each in states if each[0] > commit.answered]
    known = [(moment, state) for moment, _, state in since if state not in (FENCING, NOT_KNOWN)]
    commit.over = next((moment for moment, state in known if state in OVER), NEVER)
    if not before or before[-1] != BEGUN:
        commit.open_until = commit.began
        return
    asked = next(((each.began, each.at) for each in ends if each.began > commit.answered), (NEVER, 0))
    told = (since[0][0], since[0][1]) if since else (NEVER, 0)
    commit.open_until, commit.decided_at = min(asked, told)
    if known:
        commit.commits = COMMITS.get(known[0][1])
    if commit.commits:
        commit.in_force = commit.over
