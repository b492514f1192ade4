"""The group coordinator: the machine over one partition of `__consumer_offsets`.

It finds the group of a request and lets the group's protocol decide: `classic_protocol`, `consumer` (KIP-848) and
`streams` (KIP-1071) about members, `offset_protocol` about offsets.
Committed and pending offsets and each group's last generation are durable: `apply` folds them from the log. Waits for a
rebalance are volatile and begin anew with each coordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from odradek.core.machine import Answered, Decision, Fact, LogRecord, Machine, Proposed, Refused
from odradek.group.classic.group import ClassicGroup
from odradek.group.classic.member import Token
from odradek.group.classic.protocol import ClassicProtocol
from odradek.group.classic.rebalance import Rebalance
from odradek.group.classic.states import GroupState
from odradek.group.classic.waits import Waits
from odradek.group.commits import refusal_of_fetch
from odradek.group.consumer.group import ConsumerGroup
from odradek.group.consumer.groups import ConsumerGroups
from odradek.group.consumer.topics import NO_TOPICS
from odradek.group.folding import Folding
from odradek.group.listing import KnownMember, awaited, described, listed, matches, members_of
from odradek.group.modern_groups import Group
from odradek.group.records import group_tombstone
from odradek.group.share.group import ShareGroup
from odradek.group.share.groups import ShareGroups
from odradek.group.streams.group import StreamsGroup
from odradek.group.surroundings import ConsumerSettings, Surroundings
from odradek.group.times import Alarms
from odradek.group.work import ExpireOffsets, GroupDue, InitializeShares, ResolvePatterns, Work
from odradek.offsets.committed import Offsets, offset_tombstone
from odradek.offsets.protocol import OffsetProtocol, ProposedOffsets
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.delete_groups_response import DeletableGroupResult
from odradek.wire.messages.join_group_response import JoinGroupResponse
from odradek.wire.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from odradek.wire.messages.leave_group_response import LeaveGroupResponse, MemberResponse

if TYPE_CHECKING:
    from odradek.config.table import Config
    from odradek.group.modern_member import Client
    from odradek.group.streams.groups import StreamsGroups
    from odradek.group.streams.heartbeat import Beat
    from odradek.records.batch import Batch
    from odradek.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
    from odradek.wire.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
    from odradek.wire.messages.describe_groups_response import DescribedGroup
    from odradek.wire.messages.heartbeat_request import HeartbeatRequest
    from odradek.wire.messages.heartbeat_response import HeartbeatResponse
    from odradek.wire.messages.join_group_request import JoinGroupRequest
    from odradek.wire.messages.list_groups_response import ListedGroup
    from odradek.wire.messages.offset_commit_request import OffsetCommitRequest
    from odradek.wire.messages.offset_commit_response import OffsetCommitResponse
    from odradek.wire.messages.offset_delete_request import OffsetDeleteRequest
    from odradek.wire.messages.offset_delete_response import OffsetDeleteResponse
    from odradek.wire.messages.offset_fetch_request import OffsetFetchRequestGroup
    from odradek.wire.messages.offset_fetch_response import OffsetFetchResponseGroup
    from odradek.wire.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
    from odradek.wire.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
    from odradek.wire.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
    from odradek.wire.messages.sync_group_request import SyncGroupRequest
    from odradek.wire.messages.sync_group_response import SyncGroupResponse
    from odradek.wire.messages.txn_offset_commit_request import TxnOffsetCommitRequest
    from odradek.wire.messages.txn_offset_commit_response import TxnOffsetCommitResponse

__all__ = ["ExpireOffsets", "GroupCoordinator", "GroupDue", "Work"]

T = TypeVar("T")

PROTOCOL_REQUIRED_FROM = 5
"""The first SyncGroup version with the name of the selected protocol (KIP-559)."""
FORGOTTEN_AT_ONCE = 250
"""Number of offsets of a group or topic that one batch removes."""
LOOKED_AT_ONCE = 2_500
"""Number of offsets that are checked for expiration between two turns."""
MEMBERS_LEAVE_FROM = 3
"""The first LeaveGroup version with several members, each with its own answer (KIP-345)."""


class GroupCoordinator(Machine[Work]):
    """Groups and offsets of one partition; `member_suffix` makes the random end of a member id."""

    def __init__(
        self,
        config: Config,
        *,
        member_suffix: Callable[[], str],
        surroundings: Surroundings | None = None,
        as_committed: Callable[[], GroupCoordinator] | None = None,
        caught_up: Callable[[], None] = lambda: None,
    ) -> None:
        """`as_committed` makes a coordinator that folds committed records only; `caught_up`: none is needed now."""
        super().__init__()
        self._caught_up = caught_up
        self._as_committed = as_committed or (lambda: self)
        self._config = config
        self._waits = Waits()
        self._offsets = Offsets()
        self._offset_protocol = OffsetProtocol(config, self._offsets)
        self._groups: dict[str, Group] = {}
        self._to_begin: set[str] = set()
        """Groups whose deadlines begin at the next step with a time."""
        self._around = surroundings or Surroundings(lambda: NO_TOPICS, lambda _: ConsumerSettings(), member_suffix)
        self._seekers = self._around.seekers
        self._rebalance = Rebalance(config, self._waits, self._seekers)
        self._classic = ClassicProtocol(config, self._waits, self._rebalance, member_suffix)
        self.consumer = ConsumerGroups(self._groups, self._around, self._to_begin, self._end_waits)
        self.share = ShareGroups(self._groups, self._around, self._to_begin)
        """The share groups (KIP-932), also for requests about their offsets."""
        self._folding = Folding(
            self._groups, self._offsets, self._rebalance, self.consumer, self.share, lambda: self.streams
        )
        self._alarms = Alarms(self._deadline)
        self._next_expiry: int | None = None
        self._to_expire: list[str] = []
        """Groups whose offsets are still to be checked for expiration."""
        self._told_states: dict[str, str] = {}
        """The last state in the event log, for groups that derive their state."""

    @cached_property
    def streams(self) -> StreamsGroups:
        from odradek.group.streams.groups import StreamsGroups  # few clusters have any

        return StreamsGroups(self._groups, self._around, self._to_begin)

    def join(self, request: JoinGroupRequest, version: int, client: Client, now: int) -> Decision[JoinGroupResponse]:
        """JoinGroup; waits until the next generation is known."""
        if not request.group_id:
            return Refused(ErrorCode.INVALID_GROUP_ID)
        shortest, longest = self._config.group_min_session_timeout_ms, self._config.group_max_session_timeout_ms
        if not shortest <= request.session_timeout_ms <= longest:
            return Refused(ErrorCode.INVALID_SESSION_TIMEOUT)
        self._serve(now)
        group = self._groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self._moved(group.group_id, self.consumer.join(group, request, version, client, now))
        if isinstance(group, ShareGroup) or (isinstance(group, StreamsGroup) and not group.is_empty):
            # Unlike a classic group, these do not hand back the member id of the request.
            return Answered(JoinGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        if not isinstance(group, ClassicGroup):
            if request.member_id:
                return Refused(ErrorCode.UNKNOWN_MEMBER_ID)
            group = self._begin_group(request.group_id, now, group)
        return self._conclude(group, self._classic.join(group, request, version=version, client=client, now=now))

    def sync(self, request: SyncGroupRequest, version: int, now: int) -> Decision[SyncGroupResponse]:
        """SyncGroup; waits for the leader's assignment."""
        if version >= PROTOCOL_REQUIRED_FROM and (request.protocol_type is None or request.protocol_name is None):
            return Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        group = self._group_of_member(request.group_id, now)
        if isinstance(group, ConsumerGroup):
            return self._moved(group.group_id, self.consumer.sync(group, request, now))
        return group if isinstance(group, Refused) else self._conclude(group, self._classic.sync(group, request))

    def heartbeat(self, request: HeartbeatRequest, now: int) -> Decision[HeartbeatResponse]:
        group = self._group_of_member(request.group_id, now)
        if isinstance(group, Refused):
            return group
        if isinstance(group, ConsumerGroup):
            return self._moved(group.group_id, self.consumer.classic_heartbeat(group, request, now))
        decision = self._classic.heartbeat(group, request)
        if not isinstance(decision, Refused):
            self._alarms.arm_at(group.group_id, group.renew(request.member_id, now))
        return decision

    def leave(self, request: LeaveGroupRequest, version: int, now: int) -> Decision[LeaveGroupResponse]:
        leaving = request.members if version >= MEMBERS_LEAVE_FROM else [MemberIdentity(member_id=request.member_id)]
        group = self._group_of_member(request.group_id, now)
        decision: Decision[LeaveGroupResponse]
        if isinstance(group, Refused):
            if group.error is ErrorCode.INVALID_GROUP_ID:
                return group
            decision = Answered(LeaveGroupResponse(members=[_unknown(each) for each in leaving]))
        elif isinstance(group, ConsumerGroup):
            decision = self._moved(group.group_id, self.consumer.leave(group, leaving, now))
        else:
            decision = self._conclude(group, self._classic.leave(group, leaving, now))
        if version < MEMBERS_LEAVE_FROM and isinstance(decision, Answered | Proposed):
            decision.reply.error_code = decision.reply.members.pop().error_code
        return decision

    def _group_of_member(self, group_id: str, now: int) -> ClassicGroup | ConsumerGroup | Refused:
        """The group of a member that speaks the classic protocol."""
        self._serve(now)
        if not group_id:
            return Refused(ErrorCode.INVALID_GROUP_ID)
        group = self._groups.get(group_id)
        return group if isinstance(group, ClassicGroup | ConsumerGroup) else Refused(ErrorCode.UNKNOWN_MEMBER_ID)

    def _begin_group(self, group_id: str, now: int, before: ConsumerGroup | StreamsGroup | None) -> ClassicGroup:
        """A group that is not in the log yet: its record is due, after tombstones of an empty group before it."""
        group = self._groups[group_id] = ClassicGroup(group_id)
        group.state_timestamp = group.record_deadline = now
        group.debts = () if before is None else tuple(_tombstones(before))
        return group

    def consumer_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        version: int,
        client: Client,
        now: int,
        sees: Callable[[str], bool] | None = None,
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        """ConsumerGroupHeartbeat (KIP-848); a pattern matches topics that the member `sees`, or any."""
        self._serve(now)
        return self._moved(request.group_id, self.consumer.heartbeat(request, version, client, now, sees))

    def share_heartbeat(
        self, request: ShareGroupHeartbeatRequest, client: Client, now: int
    ) -> Decision[ShareGroupHeartbeatResponse]:
        """ShareGroupHeartbeat (KIP-932)."""
        self._serve(now)
        return self._moved(request.group_id, self.share.heartbeat(request, client, now))

    def streams_heartbeat(
        self, request: StreamsGroupHeartbeatRequest, version: int, client: Client, now: int
    ) -> Decision[Beat]:
        """StreamsGroupHeartbeat (KIP-1071)."""
        self._serve(now)
        return self._moved(request.group_id, self.streams.heartbeat(request, version, client, now))

    def _moved(self, group_id: str, decision: Decision[T]) -> Decision[T]:
        """Note that deadlines of members may have changed."""
        group = self._groups.get(group_id)
        if group is not None and not isinstance(group, ClassicGroup):
            soonest = group.times.soonest_set()
            if soonest is not None:
                self._alarms.arm_at(group_id, soonest)
        if self._waits.ended:
            self._publish()
        return decision

    def _end_waits(self, group: ClassicGroup) -> None:
        for member in group.members.values():
            self._waits.end_both(member, ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id)

    def _wanted(self, group_id: str) -> None:
        """Somebody wants something else of the group than to join it."""
        if group_id in self._seekers.groups:
            self._seekers.found(group_id)

    def commit(self, request: OffsetCommitRequest, version: int, now: int) -> Decision[OffsetCommitResponse]:
        """OffsetCommit of existing topics, each with name and id."""
        self._serve(now)
        self._wanted(request.group_id)
        group = self._groups.get(request.group_id)
        decision = self._offset_protocol.commit(group, request, version=version, now=now)
        # An older habit of the classic protocol: whoever commits lives.
        alive = GroupState.STABLE, GroupState.PREPARING_REBALANCE
        if isinstance(group, ClassicGroup) and not isinstance(decision, Refused) and group.state in alive:
            self._alarms.arm_at(group.group_id, group.renew(request.member_id, now))
        return decision

    def txn_commit(self, request: TxnOffsetCommitRequest, version: int, now: int) -> Decision[TxnOffsetCommitResponse]:
        """TxnOffsetCommit, after this partition was verified or added to the transaction; topics as in `commit`."""
        self._serve(now)
        if not request.group_id:
            return Refused(ErrorCode.INVALID_GROUP_ID)
        self._wanted(request.group_id)
        group = self._groups.get(request.group_id)
        return self._offset_protocol.txn_commit(group, request, version=version, now=now)

    def fetch(self, request: OffsetFetchRequestGroup, require_stable: bool) -> Decision[OffsetFetchResponseGroup]:
        """OffsetFetch for one group; topics have names."""
        self._wanted(request.group_id)
        refusal = refusal_of_fetch(self._groups.get(request.group_id), request)
        return refusal or Answered(self._offset_protocol.fetch(request, require_stable=require_stable))

    def delete_offsets(self, request: OffsetDeleteRequest, now: int) -> Decision[OffsetDeleteResponse]:
        """OffsetDelete of existing partitions."""
        self._serve(now)
        if not request.group_id:
            return Refused(ErrorCode.INVALID_GROUP_ID)
        self._wanted(request.group_id)
        return self._offset_protocol.delete(self._groups.get(request.group_id), request)

    def topics_deleted(self, topics: Iterable[tuple[str, bytes]]) -> Decision[bool]:
        """Topics (name, id) were deleted: remove committed offsets for them; True if there are more."""
        gone = list(topics)
        found = (
            offset_tombstone(group_id, topic, partition)
            for topic, topic_id in gone
            for group_id, partition in self._offsets.of_topic(topic, topic_id)
        )
        records = list(islice(found, FORGOTTEN_AT_ONCE))
        if len(records) == FORGOTTEN_AT_ONCE:
            return Proposed(tuple(records), True)
        records += self.share.topics_deleted(topic_id for _, topic_id in gone)
        return Proposed(tuple(records), False) if records else Answered(False)

    def describe(self, group_id: str, version: int) -> DescribedGroup:
        """DescribeGroups for one group."""
        self._wanted(group_id)
        return described(group_id, self.knowing(group_id)._groups.get(group_id), version)

    def knowing(self, group_id: str) -> GroupCoordinator:
        """A coordinator that has folded committed records only: descriptions read from it, as in Kafka."""
        return self._as_committed() if group_id in self._folding.ahead else self

    def _committed_groups(self) -> Iterable[Group]:
        ahead = self._folding.ahead
        if not ahead:
            return self._groups.values()
        committed = self._as_committed()._groups
        others = [group for group_id, group in self._groups.items() if group_id not in ahead]
        return [*others, *(committed[group_id] for group_id in ahead if group_id in committed)]

    def listed(self, states_filter: Sequence[str], types_filter: Sequence[str]) -> Iterator[ListedGroup]:
        """ListGroups for the groups of this partition."""
        matching = matches(states_filter, types_filter)
        return (listed(group) for group in self._committed_groups() if matching(group))

    def find(self, group_id: str) -> ListedGroup | None:
        """A group as ListGroups shows it; None if there is none."""
        group = self.knowing(group_id)._groups.get(group_id)
        return None if group is None else listed(group)

    def members_of(self, group_id: str) -> list[KnownMember]:
        """The members of a group of any protocol; none if there is no such group."""
        group = self.knowing(group_id)._groups.get(group_id)
        return [] if group is None else members_of(group)

    def awaited(self, group_id: str) -> tuple[list[str], int | None]:
        """The members that a rebalance waits for, and its deadline (ms; None: no deadline)."""
        group = self.knowing(group_id)._groups.get(group_id)
        return ([], None) if group is None else awaited(group)

    def delete_group(self, group_id: str, now: int) -> Decision[DeletableGroupResult | None]:
        """DeleteGroups for one group, which must have no members; its offsets are deleted too.

        Very many offsets are deleted in parts: None means that the caller has to ask again.
        """
        self._serve(now)
        self._wanted(group_id)
        group = self._groups.get(group_id)
        if group is None:
            return Refused(ErrorCode.GROUP_ID_NOT_FOUND)
        if not group.is_empty:
            return Refused(ErrorCode.NON_EMPTY_GROUP)
        if len(self._offsets.of_group(group_id)) > FORGOTTEN_AT_ONCE:
            some = islice(self._offset_protocol.tombstones(group_id), FORGOTTEN_AT_ONCE)
            return Proposed(tuple(some), None)
        records = [*self._offset_protocol.tombstones(group_id), *_tombstones(group)]
        return Proposed(tuple(records), DeletableGroupResult(group_id=group_id))

    def apply(self, batch: Batch) -> None:
        """Fold a committed batch: generations, members, offsets, and markers of transactions."""
        self.facts += self._folding.apply(batch)
        self._go_on()
        if not self._folding.ahead:
            self._caught_up()

    def fold_own(self, proposed: Proposed[object], base_offset: int) -> bool:
        """Adopt proposed offsets without reading them back from the log."""
        if type(proposed) is not ProposedOffsets:
            return False
        if proposed.group_id not in self._groups:
            self._groups[proposed.group_id] = ClassicGroup(proposed.group_id)
        producer = proposed.transactional
        producer_id = -1 if producer is None else producer.producer_id
        for record_offset, (key, value) in enumerate(proposed.offsets, base_offset):
            self._offsets.fold(key, value, record_offset=record_offset, producer_id=producer_id)
        return True

    def awaits(self, proposed: Proposed[object], base_offset: int) -> None:
        """Fold proposed records of groups of newer protocols, because the next decision depends on them."""
        self._folding.apply_ahead(proposed.records, base_offset)
        self._go_on()

    def _go_on(self) -> None:
        """Pass on the results of folding."""
        for group_id in self._folding.drain_touched():
            self._tell_state(group_id)
        for group in self._folding.drain():
            self._tell(group)
            if group.sessions_to_begin:
                self._to_begin.add(group.group_id)
        self._publish()

    def durable_state(self) -> dict[str, object]:
        """The state that follows from the log alone: equal on every coordinator that has folded the same log."""
        return self._folding.durable_state()

    def due(self, now: int) -> Sequence[Work]:
        """Groups with something due, and the check for expired offsets."""
        return self.owed(now)[0]

    def owed(self, now: int) -> tuple[Sequence[Work], int | None]:
        """The works that are due, and the time (ms) of the next ones."""
        self._serve(now)
        work: list[Work] = [GroupDue(group_id) for group_id in self._alarms.due(now)]
        if self.consumer.to_resolve:
            work += map(ResolvePatterns, sorted(self.consumer.to_resolve))
        if self.share.to_initialize:
            work += map(InitializeShares, sorted(self.share.to_initialize))
        if self._next_expiry is not None and self._next_expiry <= now:
            work.append(ExpireOffsets())
        return work, self.wake_at()

    def ended(self, work: Work) -> bool:
        """End a work; if it is still owed, it is due again."""
        if isinstance(work, GroupDue):
            self._alarms.arm(work.group_id)
        return True

    def wake_at(self) -> int | None:
        """The next time (ms) with something due."""
        if (
            self._to_begin
            or self.consumer.to_resolve
            or self.share.to_initialize
            or (self._groups and self._next_expiry is None)
        ):
            return 0
        alarm, expiry = self._alarms.next_at(), self._next_expiry
        return alarm if expiry is None or (alarm is not None and alarm < expiry) else expiry

    def perform(self, work: Work, now: int) -> Decision[None]:
        """Do a work, except for `expire_offsets`; the decision has the records to write."""
        self._serve(now)
        if isinstance(work, ResolvePatterns):
            return self.consumer.resolve(work.group_id, now)
        assert isinstance(work, GroupDue), "what the share coordinator has to know is told by the shard"
        group = self._groups.get(work.group_id)
        if group is None:
            return Answered(None)
        if isinstance(group, ConsumerGroup):
            return self.consumer.advance(group, now)
        if isinstance(group, ShareGroup):
            return self.share.advance(group, now)
        if isinstance(group, StreamsGroup):
            return self.streams.advance(group, now)
        records = self._rebalance.advance(group, now)
        decision: Decision[None] = Proposed(tuple(records), None) if records else Answered(None)
        return self._conclude(group, decision)

    def expire_offsets(self, now: int) -> Decision[bool]:
        """Remove expired offsets, a limited number at a time; True if there are more."""
        self._serve(now)
        self._next_expiry = now + self._config.offsets_retention_check_interval_ms
        if not self._to_expire:
            self._to_expire = list(reversed(self._groups))
        records: list[LogRecord] = []
        looked = 0
        while self._to_expire and looked < LOOKED_AT_ONCE and len(records) < FORGOTTEN_AT_ONCE:
            group = self._groups.get(self._to_expire[-1])
            if group is None or isinstance(group, ShareGroup):
                # That has offsets elsewhere, which do not expire.
                self._to_expire.pop()
                continue
            looked += 1 + len(self._offsets.of_group(group.group_id))
            at_most = FORGOTTEN_AT_ONCE - len(records)
            expired, gone = self._offset_protocol.expire(group, now, at_most=at_most)
            records += expired
            if len(expired) < at_most:
                self._to_expire.pop()
            if gone and group.is_empty:
                records += _tombstones(group)
        more = bool(self._to_expire)
        return Proposed(tuple(records), more) if records else Answered(more)

    def abandoned(self, token: Hashable) -> None:
        """The client of a parked request is gone."""
        assert isinstance(token, Token), "this machine hands out no other tokens"
        group = self._groups.get(token.group_id)
        if isinstance(group, ClassicGroup):
            self._waits.abandon(group, token)

    def _serve(self, now: int) -> None:
        """The time is known now: begin the deadlines for which `apply` had no time."""
        if not self._folding.serving:
            self._folding.serving = True
            for loaded in self._groups.values():
                if not isinstance(loaded, ClassicGroup):
                    # What it came to before is no news.
                    self._told_states[loaded.group_id] = loaded.state.value
                if isinstance(loaded, ClassicGroup):
                    self._rebalance.load(loaded, now)
                    self._tell(loaded)
                self._alarms.arm(loaded.group_id)
        if self._next_expiry is None and self._groups:
            self._next_expiry = now + self._config.offsets_retention_check_interval_ms
        if self._to_begin:
            for group_id in sorted(self._to_begin):
                self._begin_times(group_id, now)
            self._to_begin.clear()

    def _begin_times(self, group_id: str, now: int) -> None:
        group = self._groups.get(group_id)
        if group is None:
            return
        if isinstance(group, ClassicGroup):
            records = self._rebalance.begin(group, now)
            assert not records, "a group that has just come has members that have not joined"
            self._tell(group)
        elif isinstance(group, ConsumerGroup):
            self.consumer.begin(group, now)
        elif isinstance(group, ShareGroup):
            self.share.begin(group, now)
        else:
            self.streams.begin(group, now)
        self._alarms.arm(group_id)

    def _deadline(self, group_id: str) -> int | None:
        group = self._groups.get(group_id)
        if group is None:
            return None
        return group.next_deadline() if isinstance(group, ClassicGroup) else group.times.earliest()

    def _conclude(self, group: ClassicGroup, decision: Decision[T]) -> Decision[T]:
        """Pass on the effects of a decision besides its answer."""
        self._alarms.arm(group.group_id)
        if group.sessions_to_begin:
            self._to_begin.add(group.group_id)
        self._tell(group)
        self._publish()
        return decision

    def _publish(self) -> None:
        if self._waits.ended:
            self.released += self._waits.ended
            self._waits.ended.clear()

    def _tell_state(self, group_id: str) -> None:
        """Emit an event if the derived state of a group has changed."""
        if not self._folding.serving:
            return
        group = self._groups.get(group_id)
        modern = None if isinstance(group, ClassicGroup) else group
        before = self._told_states.pop(group_id, GroupState.DEAD.value)
        after = GroupState.DEAD.value if modern is None else modern.state.value
        if modern is not None:
            self._told_states[group_id] = after
        if before != after:
            epoch, members = (0, 0) if modern is None else (modern.epoch, len(modern.members))
            fields = {"group_id": group_id, "state_from": before, "state_to": after}
            self.facts.append(Fact("group_state_change", {**fields, "generation": epoch, "members": members}))

    def _tell(self, group: ClassicGroup) -> None:
        for before, after in group.transitions:
            self.facts.append(
                Fact(
                    "group_state_change",
                    {
                        "group_id": group.group_id,
                        "state_from": before.value,
                        "state_to": after.value,
                        "generation": group.generation,
                        "members": len(group.members),
                    },
                )
            )
        group.transitions.clear()


def _tombstones(group: Group) -> list[LogRecord]:
    return [group_tombstone(group.group_id)] if isinstance(group, ClassicGroup) else group.tombstones()


def _unknown(leaving: MemberIdentity) -> MemberResponse:
    return MemberResponse(
        member_id=leaving.member_id,
        group_instance_id=leaving.group_instance_id,
        error_code=ErrorCode.UNKNOWN_MEMBER_ID,
    )
