"""Common to the APIs of groups: the coordinator of a group, its errors as clients know them, and permissions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeAlias, TypeVar

from msgspec import Struct

from odradek.access.acls import AclOperation, AclResource
from odradek.access.needs import DENIED, NO_OPERATIONS, allowed_on_each, denied, in_series
from odradek.core.machine import Refused
from odradek.group.modern_member import Client
from odradek.host.call import Serve
from odradek.host.endpoint import Needs
from odradek.wire.error_maps import group_log_error
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.access.authority import Authority
    from odradek.core.machine import Decision
    from odradek.group.coordinator import GroupCoordinator
    from odradek.group.shard import GroupShard
    from odradek.host.call import Call
    from odradek.host.host import Host
    from odradek.host.shard import CoordinatorsOf
    from odradek.wire.messages import consumer_group_describe_request as asked_of_consumers
    from odradek.wire.messages import consumer_group_describe_response as of_consumers
    from odradek.wire.messages import describe_groups_response as of_classic
    from odradek.wire.messages import share_group_describe_request as asked_of_shares
    from odradek.wire.messages import share_group_describe_response as of_shares
    from odradek.wire.messages import streams_group_describe_request as asked_of_streams
    from odradek.wire.messages import streams_group_describe_response as of_streams

__all__ = [
    "GROUP_OPERATIONS",
    "GroupCoordinators",
    "ModernGroupApi",
    "client_of",
    "described",
    "described_with_assigned_topics",
    "group_shard",
    "names_described",
    "refusal",
    "with_operations",
]

Q = TypeVar("Q", bound=Struct)
R = TypeVar("R", bound=Struct)
T = TypeVar("T")
GroupCoordinators: TypeAlias = "CoordinatorsOf[GroupShard]"
AsksOfGroups = TypeVar(
    "AsksOfGroups",
    "asked_of_consumers.ConsumerGroupDescribeRequest",
    "asked_of_shares.ShareGroupDescribeRequest",
    "asked_of_streams.StreamsGroupDescribeRequest",
)
Descriptions = TypeVar(
    "Descriptions",
    "of_consumers.ConsumerGroupDescribeResponse",
    "of_shares.ShareGroupDescribeResponse",
    "of_streams.StreamsGroupDescribeResponse",
)
Described = TypeVar("Described", "of_consumers.DescribedGroup", "of_shares.DescribedGroup", "of_streams.DescribedGroup")
AnyGroup = TypeVar(
    "AnyGroup",
    bound="of_classic.DescribedGroup | of_consumers.DescribedGroup | of_shares.DescribedGroup "
    "| of_streams.DescribedGroup",
)
WithMembers = TypeVar("WithMembers", bound="of_consumers.DescribedGroup | of_shares.DescribedGroup")

DESCRIBE, TOPIC, GROUP = AclOperation.DESCRIBE, AclResource.TOPIC, AclResource.GROUP
HIDDEN_ASSIGNED_TOPIC = "The group has described topic(s) that the client is not authorized to describe."
GROUP_OPERATIONS = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""The operations on a group where everything is allowed: read, delete, describe, and its configs (KIP-430)."""


def group_shard(coordinators: GroupCoordinators, group_id: str, *, empty_allowed: bool = False) -> GroupShard | Refused:
    """The coordinator of a group, if it is here; old offset commits and admin requests may name the group ""."""
    if not group_id and not empty_allowed:
        return Refused(ErrorCode.INVALID_GROUP_ID)
    return coordinators.of(group_id)


def refusal(refused: Refused) -> ErrorCode:
    """The error code as clients know it."""
    return group_log_error(refused.error)


def client_of(call: Call[Q]) -> Client:
    """The client of a request, as groups show it."""
    return Client(call.client_id or "", f"/{call.host}")


class ModernGroupApi:
    """Base of the APIs of the newer protocols; each is served where a feature of the cluster is on."""

    feature: ClassVar[str]
    protocol: ClassVar[str | None] = None
    """The name in `group.coordinator.rebalance.protocols` that a broker must have to serve it."""

    def __init__(self, node: Host, coordinators: GroupCoordinators) -> None:
        self._coordinators = coordinators
        self._authority = node.authority
        self._metadata = node.metadata
        self._settings = node.settings
        self._clock = node.clock
        self._turns = node.turns

    @property
    def _is_served(self) -> bool:
        protocol = self.protocol
        if protocol is not None and protocol not in self._settings.config.group_coordinator_rebalance_protocols:
            return False
        return self._metadata.image.feature(self.feature) > 0

    async def _decided(self, group_id: str, decide: Callable[[GroupCoordinator], Decision[T]]) -> T | Refused:
        """Have the coordinator decide now; return the outcome when it is committed."""
        shard = self._coordinators.of(group_id)
        return shard if isinstance(shard, Refused) else await shard.decided(decide(shard.machine))

    async def _described(
        self,
        call: Call[AsksOfGroups],
        kind: type[Described],
        find: Callable[[GroupCoordinator, str], Described | Refused],
    ) -> list[Described]:
        """The description of each group, or its error and message, from committed state only."""
        group_ids = call.request.group_ids
        if not self._is_served:
            return [kind(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION) for group_id in group_ids]

        def one(group_id: str) -> Described:
            shard = group_shard(self._coordinators, group_id)
            found = shard if isinstance(shard, Refused) else find(shard.machine.knowing(group_id), group_id)
            if isinstance(found, Refused):
                return kind(group_id=group_id, error_code=refusal(found), error_message=found.message)
            if call.request.include_authorized_operations:
                found.authorized_operations = GROUP_OPERATIONS
            return found

        descriptions: list[Described] = []
        async for some in self._turns.share(call, group_ids):
            descriptions += map(one, some)
        return descriptions


def described(topics: Needs[AsksOfGroups, Descriptions]) -> Needs[AsksOfGroups, Descriptions]:
    """DESCRIBE on each group of a newer protocol, and on `topics` of it."""
    return in_series(
        topics,
        with_operations(lambda response: response.groups),
        allowed_on_each(
            DESCRIBE,
            GROUP,
            asked=lambda request: request.group_ids,
            answered=lambda response: response.groups,
            name=lambda group_id: group_id,
        ),
    )


def with_operations(groups: Callable[[R], Sequence[AnyGroup]]) -> Needs[Q, R]:
    """Each described group has the operations that the client may do on it, if the request asks for them (KIP-430)."""

    async def guard(authority: Authority, call: Call[Q], serve: Serve[Q, R]) -> R:
        response = await serve(call)
        for group in groups(response):
            if group.authorized_operations != NO_OPERATIONS:
                group.authorized_operations = authority.operations(call, GROUP, group.group_id)
        return response

    return Needs("", guard)


def names_described(names: Callable[[Q], Iterable[str] | None], answer: type[R]) -> Needs[Q, R]:
    """DESCRIBE on every topic of a member."""

    async def guard(authority: Authority, call: Call[Q], serve: Serve[Q, R]) -> R:
        if not all(authority.allows(call, DESCRIBE, TOPIC, name) for name in names(call.request) or ()):
            return denied(call, DENIED[TOPIC], answer)
        return await serve(call)

    return Needs("DESCRIBE on every topic that is subscribed to", guard)


def described_with_assigned_topics(
    groups: Callable[[R], Sequence[WithMembers]], topics_of: Callable[[WithMembers], Iterable[str]]
) -> Needs[Q, R]:
    """DESCRIBE on every topic that members of a group have or will get; otherwise only the group's id is answered."""

    async def guard(authority: Authority, call: Call[Q], serve: Serve[Q, R]) -> R:
        response = await serve(call)
        for group in groups(response):
            names = frozenset(topics_of(group))
            if not all(authority.allows(call, DESCRIBE, TOPIC, name) for name in names):
                group.error_code, group.error_message = DENIED[TOPIC], HIDDEN_ASSIGNED_TOPIC
                group.group_state = group.assignor_name = ""
                group.group_epoch = group.assignment_epoch = 0
                group.members, group.authorized_operations = [], NO_OPERATIONS
        return response

    return Needs("DESCRIBE on every topic that its members have", guard)
