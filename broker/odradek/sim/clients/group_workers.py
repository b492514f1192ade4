"""Workers in a group of the newer protocol (KIP-848): the coordinator assigns the work.

The group reads the topic `t`, and the member with its first partition has the work. The member epoch tells the offsets
of a member from those of the partition's last owner.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from odradek.sim.clients.producers import AGAIN, TOPIC
from odradek.sim.clients.workers import WORK_GROUP, Membership, Worker
from odradek.sim.world.actors import Script, Sleep
from odradek.wire.errors import ErrorCode
from odradek.wire.messages import consumer_group_heartbeat_response
from odradek.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions

__all__ = ["Member"]

REBALANCE_MS = 400
LEAVES = 0.12
"""Probability that a member leaves, so that its work goes to another one."""
JOINING, LEAVING = 0, -1
VERSION = 1


class Member(Worker):
    """A producer whose transactions do the work of such a group; `consume` is the script of its consumer."""

    ranges = False
    """Whether it asks for the range assignor."""

    def consume(self) -> Script:
        """Be one member after the other until the work is done."""
        for number in count():
            if not self.goes_on():
                return
            yield from self._live(f"{self.name}-{number}")
            self.membership = Membership()
            yield Sleep(self._dice.randint(10, 200))

    def _live(self, member_id: str) -> Script:
        """Send heartbeats from the join until the member leaves or is fenced."""
        epoch, owned, told = JOINING, None, None
        while True:
            if epoch > JOINING and self.plan.dies and self._dice.random() < self.plan.dies / 4:
                # Like a killed process: its membership ends with its session.
                return
            leaves = epoch > JOINING and (not self.goes_on() or self._dice.random() < LEAVES)
            if leaves:
                self.membership = Membership()
            request = self._heartbeat(member_id, LEAVING if leaves else epoch, owned if owned != told else None)
            response = yield from self._ask_group(request, VERSION)
            if response is not None and response.error_code == ErrorCode.NONE:
                if leaves:
                    return
                epoch, told = response.member_epoch, owned
                if response.assignment is not None:
                    owned = response.assignment.topic_partitions
                self.membership = Membership(member_id, epoch, self._has_work(owned or ()))
            elif (response is not None and response.error_code not in AGAIN) or not self.goes_on():
                return
            yield Sleep(self._dice.randint(20, 120))

    def _heartbeat(
        self, member_id: str, epoch: int, owned: Sequence[consumer_group_heartbeat_response.TopicPartitions] | None
    ) -> ConsumerGroupHeartbeatRequest:
        """The next heartbeat: complete when it joins, later with its partitions only if they changed."""
        partitions = [TopicPartitions(topic_id=each.topic_id, partitions=[*each.partitions]) for each in owned or ()]
        return ConsumerGroupHeartbeatRequest(
            group_id=WORK_GROUP,
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=REBALANCE_MS if epoch == JOINING else -1,
            subscribed_topic_names=[TOPIC] if epoch == JOINING else None,
            server_assignor="range" if epoch == JOINING and self.ranges else None,
            topic_partitions=partitions if owned is not None or epoch == JOINING else None,
        )

    def _has_work(self, owned: Sequence[consumer_group_heartbeat_response.TopicPartitions]) -> bool:
        return any(0 in each.partitions for each in owned)
