"""The desk of this folder with topics, and members that speak the consumer protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace
from tests.unit.group.desk import REBALANCE_MS, Desk

from odradek.group.consumer.group import ConsumerGroup
from odradek.group.coordinator import GroupCoordinator
from odradek.group.modern_member import Client
from odradek.group.surroundings import ConsumerSettings, Surroundings
from odradek.metadata.image import MetadataImage, PartitionImage, TopicImage
from odradek.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from odradek.wire.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse

T, U = bytes([1] * 16), bytes([2] * 16)
NAMES = {"orders": T, "refunds": U}
CONSUMER_SESSION_MS = 45_000
Owned = Mapping[bytes, Iterable[int]]


def image_of(counts: Mapping[str, int], offset: int = 0) -> MetadataImage:
    """Topics with so many partitions each."""
    topics = [
        TopicImage(
            name,
            NAMES.get(name, name.encode().ljust(16)),
            {i: PartitionImage(i, 1, 0, 0, (1,), (1,)) for i in range(n)},
        )
        for name, n in counts.items()
    ]
    by_name, by_id = {each.name: each for each in topics}, {each.id: each for each in topics}
    return MetadataImage(offset=offset, topics=by_name, topics_by_id=by_id)


class ConsumerDesk(Desk):
    """Assignments are computed at once, unless a test says otherwise."""

    def __init__(self, counts: Mapping[str, int] | None = None, **settings: Any) -> None:
        self.settings = replace(ConsumerSettings(assignment_interval_ms=0), **settings)
        self.image = image_of({"orders": 4} if counts is None else counts)
        super().__init__()

    def new_machine(self) -> GroupCoordinator:
        around = Surroundings(lambda: self.image, lambda _: self.settings, lambda: f"member-{next(self.suffixes)}")
        return GroupCoordinator(self.config, member_suffix=lambda: str(next(self.suffixes)), surroundings=around)

    def set_topics(self, **counts: int) -> None:
        """The metadata has moved on."""
        self.image = image_of(counts, self.image.offset + 1)

    @property
    def group(self) -> ConsumerGroup:
        group = self.machine._groups["g"]
        assert isinstance(group, ConsumerGroup)
        return group

    def beat(
        self,
        member_id: str,
        epoch: int,
        owned: Owned | None = None,
        *,
        topics: Iterable[str] | None = None,
        pattern: str | None = None,
        instance: str | None = None,
        assignor: str | None = None,
        rebalance_ms: int = -1,
        version: int = 1,
        sees: Callable[[str], bool] | None = None,
        client_id: str = "client",
    ) -> Any:
        """A ConsumerGroupHeartbeat."""
        partitions = None
        if owned is not None:
            partitions = [TopicPartitions(topic_id=key, partitions=sorted(owned[key])) for key in owned]
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance,
            rebalance_timeout_ms=rebalance_ms,
            subscribed_topic_names=None if topics is None else list(topics),
            subscribed_topic_regex=pattern,
            server_assignor=assignor,
            topic_partitions=partitions,
        )
        client = Client(client_id, "/10.0.0.1")
        return self.ask(self.machine.consumer_heartbeat, request, version, client, self.now, sees)

    def arrive(self, member_id: str, *, topics: Iterable[str] | None = ("orders",), **kwargs: Any) -> Any:
        """A member joins, or joins again."""
        kwargs.setdefault("rebalance_ms", REBALANCE_MS)
        return self.beat(member_id, 0, {}, topics=topics, **kwargs)


class ConsumerClient:
    """Does what a consumer does: takes what it is assigned, gives up what it is not, and says so."""

    def __init__(self, member_id: str, instance: str | None = None) -> None:
        self.member_id = member_id
        self.instance = instance
        self.epoch = 0
        self.owned: dict[bytes, set[int]] = {}
        self.topics: tuple[str, ...] = ("orders",)
        self.missed_answer = False
        """Whether it has to say everything again, because it does not know what it was answered."""

    @property
    def partitions(self) -> set[tuple[bytes, int]]:
        return {(topic_id, index) for topic_id, indexes in self.owned.items() for index in indexes}

    def beat(self, desk: ConsumerDesk) -> Any:
        """One heartbeat, with all that the client could say; a refusal has it begin anew."""
        if self.epoch == 0:
            self.owned = {}
            outcome = desk.arrive(self.member_id, topics=self.topics, instance=self.instance)
        elif self.missed_answer:
            outcome = desk.beat(
                self.member_id,
                self.epoch,
                self.owned,
                instance=self.instance,
                topics=self.topics,
                rebalance_ms=REBALANCE_MS,
            )
        else:
            outcome = desk.beat(self.member_id, self.epoch, self.owned, instance=self.instance)
        self.missed_answer = False
        if not isinstance(outcome, ConsumerGroupHeartbeatResponse):
            self.epoch, self.owned = 0, {}
            return outcome
        self.epoch = outcome.member_epoch
        if outcome.assignment is not None:
            self.owned = {each.topic_id: set(each.partitions) for each in outcome.assignment.topic_partitions}
        return outcome


def assigned(response: ConsumerGroupHeartbeatResponse) -> dict[bytes, list[int]] | None:
    """The partitions of an answer; None if it says nothing of them."""
    if response.assignment is None:
        return None
    return {each.topic_id: each.partitions for each in response.assignment.topic_partitions}
