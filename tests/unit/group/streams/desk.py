"""The desk of this folder with topics, and members that speak the streams protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace
from tests.unit.group.consumer.desk import image_of
from tests.unit.group.desk import REBALANCE_MS, Desk

from odradek.group.coordinator import GroupCoordinator
from odradek.group.modern_member import Client
from odradek.group.streams.group import StreamsGroup
from odradek.group.streams.heartbeat import Beat
from odradek.group.surroundings import ConsumerSettings, StreamsSettings, Surroundings
from odradek.wire.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)

STREAMS_SESSION_MS = 45_000
Names = Iterable[str]
"""Tasks as Kafka Streams calls them: `0_1`."""


def topology(*subtopologies: Subtopology, epoch: int = 0) -> Topology:
    """One subtopology that reads `orders` and keeps its state in `store`, unless others are given."""
    plain = Subtopology(subtopology_id="0", source_topics=["orders"], state_changelog_topics=[TopicInfo(name="store")])
    return Topology(epoch=epoch, subtopologies=list(subtopologies) or [plain])


def task_ids(names: Names) -> list[TaskIds]:
    """Tasks as a request has them."""
    found: dict[str, list[int]] = {}
    for name in names:
        subtopology, index = name.rsplit("_", 1)
        found.setdefault(subtopology, []).append(int(index))
    return [TaskIds(subtopology_id=name, partitions=sorted(indexes)) for name, indexes in sorted(found.items())]


def names_of(listed: Iterable[Any] | None) -> set[str] | None:
    """The same of an answer; None if it says nothing of them."""
    if listed is None:
        return None
    return {f"{each.subtopology_id}_{index}" for each in listed for index in each.partitions}


class StreamsDesk(Desk):
    """Assignments are computed at once, unless a test says otherwise."""

    def __init__(self, counts: Mapping[str, int] | None = None, **settings: Any) -> None:
        first = StreamsSettings(assignment_interval_ms=0, initial_rebalance_delay_ms=0)
        self.settings = replace(first, **settings)
        self.image = image_of({"orders": 4, "store": 4} if counts is None else counts)
        super().__init__()

    def new_machine(self) -> GroupCoordinator:
        around = Surroundings(
            lambda: self.image, lambda _: ConsumerSettings(), lambda: "", streams=lambda _: self.settings
        )
        return GroupCoordinator(self.config, member_suffix=lambda: str(next(self.suffixes)), surroundings=around)

    def set_topics(self, **counts: int) -> None:
        """The metadata has moved on."""
        self.image = image_of(counts, self.image.offset + 1)

    @property
    def group(self) -> StreamsGroup:
        group = self.machine._groups["g"]
        assert isinstance(group, StreamsGroup)
        return group

    def beat(
        self,
        member_id: str,
        epoch: int,
        active: Names | None = None,
        standby: Names = (),
        *,
        version: int = 1,
        **fields: Any,
    ) -> Any:
        """A StreamsGroupHeartbeat: the response, or what it was refused with."""
        if active is not None:
            fields |= {"active_tasks": task_ids(active), "standby_tasks": task_ids(standby), "warmup_tasks": []}
        request = StreamsGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch, **fields)
        outcome = self.ask(self.machine.streams_heartbeat, request, version, Client("client", "/10.0.0.1"), self.now)
        return outcome.response if isinstance(outcome, Beat) else outcome

    def arrive(self, member_id: str, process: str | None = None, **fields: Any) -> Any:
        """A member joins, or joins again."""
        fields.setdefault("topology", topology())
        fields.setdefault("rebalance_timeout_ms", REBALANCE_MS)
        return self.beat(member_id, 0, (), process_id=process or f"p-{member_id}", **fields)


class StreamsClient:
    """Does what a thread of Kafka Streams does: takes the tasks that it is given, and gives up those that it is not."""

    def __init__(self, member_id: str, process: str, instance: str | None = None) -> None:
        self.member_id = member_id
        self.process = process
        self.instance = instance
        self.epoch = 0
        self.active: set[str] = set()
        self.standby: set[str] = set()

    def forget(self) -> None:
        """It begins anew."""
        self.epoch, self.active, self.standby = 0, set(), set()

    def beat(self, desk: StreamsDesk) -> Any:
        """One heartbeat, with all tasks; a refusal has it begin anew."""
        if self.epoch == 0:
            self.forget()
            outcome = desk.arrive(self.member_id, self.process, instance_id=self.instance)
        else:
            outcome = desk.beat(self.member_id, self.epoch, self.active, self.standby, instance_id=self.instance)
        if not hasattr(outcome, "active_tasks"):
            self.forget()
            return outcome
        self.epoch = outcome.member_epoch
        active, standby = names_of(outcome.active_tasks), names_of(outcome.standby_tasks)
        if active is not None and standby is not None:
            self.active, self.standby = active, standby
        return outcome
