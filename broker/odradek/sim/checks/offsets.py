"""What is told of the offsets of groups that several clients commit, with transactions and without.

Of two offsets that are in force that one counts which was written later, and not that which came into force later
(KIP-98): after a compaction nothing else could be told from the log. Who asks for stable offsets waits as long as any
transaction holds one (KIP-447).

From what clients asked and were answered, and from the events of transactions, follows when each commit was written and
came into force, at the earliest and at the latest. The metadata of a commit is its name, which readers are told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from odradek.log.machine import Fact
from odradek.node.coordinators import CoordinatorKind, partition_for
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
"""As long as a coordinator may take to forget what has expired when its clock was set."""
DESCRIBE_VERSION = 5
DEAD = "Dead"
STABLE_SINCE = 7
"""Version of OffsetFetch (KIP-447)."""
NOT_WRITTEN = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS})
"""For these a commit is sent again, and the first one is not in the log."""
COMMITS: Mapping[str, bool] = {
    "PrepareCommit": True,
    "CompleteCommit": True,
    "PrepareAbort": False,
    "CompleteAbort": False,
}
BEGUN = "Ongoing"
FENCING = "PrepareEpochFence"
NOT_KNOWN = ""
"""Another coordinator has taken over."""
OVER = frozenset({"CompleteCommit", "CompleteAbort", "Empty", BEGUN, "Dead"})
"""In each of these the transaction before is over."""


class Told(Struct, frozen=True):
    """What somebody was told of the offset of a group, and when the question and the answer were sent."""

    group: str
    began: Moment
    ended: Moment
    ended_at: int
    """The latter in milliseconds."""
    stable: bool
    """Whether only a stable offset was asked for."""
    error: int
    offset: int = -1
    name: str = ""
    """Of the commit; none if there is no offset."""
    state: str = ""
    """Of the group, where that was asked for as well."""


class _Commit(Struct):
    name: str
    group: str
    transactional_id: str
    """Empty: it is in no transaction."""
    began: Moment
    answered: Moment = NEVER
    """It is written by then."""
    answered_at: int = 0
    """The same in milliseconds."""
    last: Moment = NEVER
    """Nothing of it is written later."""
    may_come: bool = False
    """Whether a request for it was sent of which nobody knows what has become."""
    open_until: Moment = NEVER
    """Its transaction is not decided before."""
    decided_at: int = 0
    """The same in milliseconds."""
    commits: bool | None = None
    """Whether its transaction commits, as far as it is known."""
    over: Moment = NEVER
    """Its transaction is over by then."""
    in_force: Moment = NEVER
    """It counts by then."""


def used_groups(asked: Sequence[Asked], groups: Collection[str]) -> list[str]:
    """Those of the groups that somebody has committed an offset of, or tried to, in order."""
    commits = (each.request for each in asked if isinstance(each.request, OffsetCommitRequest | TxnOffsetCommitRequest))
    return sorted({request.group_id for request in commits if request.group_id in groups})


def offset_at_rest(world: World, group: str) -> OffsetFetchResponsePartitions:
    """What a group is told of its offset, in partition 0 of topic t, when nothing else is asked of its coordinator."""
    wanted = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[wanted])], require_stable=True)
    coordinator = _coordinator_of(world, group)
    [answer] = world.client(coordinator).ask(request, 8).groups
    if answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        # Nobody has asked this coordinator yet.
        world.advance(1_000)
        [answer] = world.client(coordinator).ask(request, 8).groups
    [[result]] = [topic.partitions for topic in answer.topics]
    found: OffsetFetchResponsePartitions = result
    return found


def state_at_rest(world: World, group: str) -> str:
    """What a group is said to be in."""
    client = world.client(_coordinator_of(world, group))
    [described] = client.ask(DescribeGroupsRequest(groups=[group]), DESCRIBE_VERSION).groups
    state: str = described.group_state
    return state


def told_at_rest(world: World, groups: Iterable[str], moment: Callable[[], Moment]) -> list[Told]:
    """What is told of these groups when everything has come to rest; `moment` says when that is."""
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
    """What was told of these groups and does not follow from what was committed; `at_rest`: in the end.

    `days_passed`: when a clock was set so far ahead that offsets may have expired.
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
    """Whether a transaction may hold an offset of the group; one that was not answered may be written at any time."""
    return any(each.transactional_id and each.began < told.ended and each.over > told.began for each in commits)


def _may_have_expired(commit: _Commit, until: int, days_passed: Sequence[int]) -> bool:
    """Whether a clock was set when it counted, or was about to."""
    return any(commit.decided_at - EXPIRY_MS <= at <= until for at in days_passed)


def _may_count(commit: _Commit, told: Told, ends: Iterable[Asked]) -> bool:
    """Whether its transaction was to be committed when the answer came, and was not aborted."""
    return commit.commits is not False and any(
        isinstance(each.request, EndTxnRequest) and each.request.committed and commit.began < each.began < told.ended
        for each in ends
    )


# ---------------------------------------------------------------------- what was asked and told


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
    """What somebody has asked for that ends the transactions of an id."""
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
    """By their groups and names, in the order in which they were asked for."""
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
    """When transactional ids went into which state."""
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
    """What becomes of the transaction that was open when the commit was answered.

    If none was, the commit may have been written while the markers of its transaction were on their way: then nothing
    is known but that it is over when the next thing is told of the id. A coordinator that takes over does not tell what
    it finds in its log, so that after it the next thing says no more than that, either.
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
