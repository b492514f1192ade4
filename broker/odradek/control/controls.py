"""What can be done to a running cluster, from its own event loop; `testing.Cluster` and the hub are doors to this."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.config.keys import INT_MAX
from odradek.core.internal_topics import CoordinatorKind, partition_for
from odradek.core.machine import Refused
from odradek.metadata.brokers import may_lead
from odradek.metadata.configs import Operation, Step
from odradek.metadata.image import ResourceType
from odradek.txn.entry import EPOCH_MAX
from odradek.txn.epochs import force_epoch
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.broker import Node
    from odradek.metadata.controller_role import ControllerRole
    from odradek.net.cluster import RunningCluster

__all__ = ["Controls"]

__tracebackhide__ = True
"""What cannot be done is said in a sentence: pytest leaves these frames out of the tracebacks of tests."""


class Controls:
    """One cluster. Nothing here waits: what brokers have to ask of one another follows in later turns of the loop.

    What the controller decides is known to every broker that hears, though, when the method returns.

    Every method raises LookupError for what there is not, RuntimeError for what cannot be done now, and ValueError for
    what cannot be at all.
    """

    def __init__(self, cluster: RunningCluster) -> None:
        self._cluster = cluster

    @property
    def broker_ids(self) -> list[int]:
        """The ids of the brokers, in order."""
        return sorted(self._cluster.drivers)

    def node(self, broker: int | None = None) -> Node:
        """A broker; the controller if none is named."""
        return self._cluster.node(self._cluster.spec.controller_id if broker is None else self.known(broker))

    def nodes(self, broker: int | None = None) -> list[Node]:
        """All brokers, or this one."""
        return [self.node(each) for each in (self.broker_ids if broker is None else [broker])]

    def known(self, broker: int) -> int:
        """The id, if there is such a broker."""
        if broker not in self._cluster.drivers:
            raise LookupError(f"there is no broker {broker}: the brokers are {self.broker_ids}")
        return broker

    def leader(self, topic: str, partition: int) -> int:
        """The broker that leads a partition; -1 if none does."""
        registered = self.node().image.partition(topic, partition)
        if registered is None:
            raise LookupError(f"there is no partition {partition} of topic {topic}")
        return self._cluster.leads(registered)

    def advertise(self, broker: int, *, port: int, host: str | None = None, listener: str | None = None) -> None:
        """Tell clients another address of a broker's listener from now on; it listens where it did."""
        self.known(broker)
        self._cluster.advertise(broker, port=port, host=host, listener=listener)

    def reload_certificates(self) -> None:
        """Read the keys and certificates of every listener again, for the connections to come."""
        self._cluster.reload_certificates()

    # ------------------------------------------------------------------ leaders and coordinators

    def move_leader(self, topic: str, partition: int, *, to: int | None, unclean: bool = False) -> int:
        """Give a partition to another broker, or to the same one in a new leader epoch; it replays the log.

        Without a broker it is the next in sync that runs, by the ids. Raises RuntimeError for one that is out of sync,
        unless the move may be `unclean`: what that one lacks is lost then, be it committed or not.
        Returns the broker.
        """
        self.leader(topic, partition)
        if to is None:
            to = self._next(topic, partition, unclean)
        elif self._cluster.drivers[self.known(to)].stopped:
            raise _unmoved(topic, partition, to, Refused(ErrorCode.BROKER_NOT_AVAILABLE))
        broker = to
        refused = self._cluster.decide(
            lambda controller: controller.move_leader(topic, partition, broker, unclean=unclean)
        )
        if refused is not None:
            raise _unmoved(topic, partition, broker, refused)
        return broker

    def _next(self, topic: str, partition: int, unclean: bool) -> int:
        """The next broker that can lead a partition; the present leader if there is no other."""
        registered = self.node().image.partition(topic, partition)
        assert registered is not None, "it was looked up before"
        present = registered.leader
        able = [each for each in self._cluster.heard if unclean or may_lead(registered, each)]
        # A replica comes before a broker that would have to be given everything first.
        able.sort(key=lambda each: (each == present, each not in registered.replicas, each < present, each))
        if not able:
            isr = sorted(registered.isr)
            raise RuntimeError(
                f"the leader of {topic}-{partition} cannot be moved: {ErrorCode.BROKER_NOT_AVAILABLE.name}, "
                f"no broker in sync runs (the ISR is {isr})"
            )
        return able[0]

    def move_coordinator(self, kind: CoordinatorKind, key: str, *, to: int | None = None, unclean: bool = False) -> int:
        """Move the coordinator of a group or a transactional id, as `move_leader` moves a leader; where it is."""
        topic = self.node().image.topic(kind.topic)
        if topic is None:
            raise LookupError(f"there is no {kind.topic} yet")
        index = partition_for(key, len(topic.partitions))
        return self.move_leader(kind.topic, index, to=to, unclean=unclean)

    def set_coordinator_load_ms(self, milliseconds: int) -> None:
        """From now on coordinators take this long to load, and answer COORDINATOR_LOAD_IN_PROGRESS meanwhile."""
        if not 0 <= milliseconds <= INT_MAX:
            raise ValueError(f"coordinators take no {milliseconds} ms to load: give 0 or more, up to {INT_MAX}")
        for node in self.nodes():
            node.coordinators.load_ms = milliseconds

    def set_producer_epoch(self, transactional_id: str, epoch: int) -> None:
        """Give an idle transactional id this epoch, as if its producer had been at work for long."""
        if not 0 <= epoch <= EPOCH_MAX:
            raise ValueError(f"a producer epoch is a number from 0 to {EPOCH_MAX}, not {epoch}")
        for driver in self._cluster.drivers.values():
            if driver.stopped:
                continue
            shard = driver.node.coordinators.transactional(transactional_id)
            if not isinstance(shard, Refused):
                driver.act(lambda shard=shard: force_epoch(shard, transactional_id, epoch))  # type: ignore[misc]
                return
        raise LookupError(f"no broker has loaded the coordinator of {transactional_id}")

    # ------------------------------------------------------------------ levels and configs

    def set_feature(self, name: str, level: int) -> None:
        """Finalize another level of a feature, up or down, as an operator would (UpdateFeatures)."""
        error = self._cluster.decide(lambda controller: _set_feature(controller, name, level))
        if error is not None:
            raise ValueError(error)

    def alter_configs(self, resource_type: ResourceType, name: str, changes: Mapping[str, str | None]) -> None:
        """Set configs as an operator would (IncrementalAlterConfigs); None takes one back."""
        if resource_type == ResourceType.BROKER and name:
            # The controller cannot know which certificates a broker has; the broker does.
            steps = [
                Step(key, Operation.DELETE if value is None else Operation.SET, value) for key, value in changes.items()
            ]
            failure = self.node(int(name)).listener_certificates.complaint(steps)
            if failure is not None:
                raise ValueError(failure.message)
        error = self._cluster.decide(lambda controller: controller.alter_configs(resource_type, name, changes))
        if error is not None:
            raise ValueError(error)

    # ------------------------------------------------------------------ brokers

    def disconnect_clients(self) -> None:
        """Close every connection of a client; what a broker is asked meanwhile is served, the answers are lost."""
        for driver in self._cluster.drivers.values():
            driver.hang_up_clients()

    def stop_broker(self, broker: int, *, cleanly: bool = False, fence_after_ms: int = 0) -> None:
        """End a broker, cleanly or as if its machine were gone; others take over what it led, at once or so much later.

        It may be stopped already.
        """
        self._cluster.stop_broker(self.known(broker), cleanly=cleanly, fence_after_ms=fence_after_ms)

    def start_broker(self, broker: int) -> None:
        """Start a broker again that was stopped, at the same address. It may run already."""
        if self._cluster.drivers[self.known(broker)].stopped:
            self._cluster.start_broker(broker)

    def set_replica_lag(self, broker: int, milliseconds: int | None) -> None:
        """From now on the replicas of a broker take so long to acknowledge; None: for ever."""
        node_id = self.known(broker)
        self._cluster.decide(lambda controller: controller.set_replica_lag(node_id, milliseconds))

    def pause_broker(self, broker: int) -> None:
        """Have a broker hear nothing of clients or of other brokers, while its connections stay open.

        It may be paused already, and then that goes on as it began.
        """
        self._cluster.pause_broker(self._alive(broker))

    def resume_broker(self, broker: int) -> None:
        """Let a broker that was paused hear again, what has waited first; it may not be paused at all."""
        self._cluster.resume_broker(self._alive(broker))

    def _alive(self, broker: int) -> int:
        if self._cluster.drivers[self.known(broker)].stopped:
            raise RuntimeError(f"broker {broker} is stopped")
        return broker


def _set_feature(controller: ControllerRole, name: str, level: int) -> str | None:
    """Why a feature cannot be set to a level, or None; the level that it has is no change."""
    return None if controller.image.feature(name) == level else controller.set_feature(name, level)


def _unmoved(topic: str, partition: int, to: int, refused: Refused) -> RuntimeError:
    why = f"{refused.error.name}, {refused.message}" if refused.message else refused.error.name
    unclean = refused.error is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    way = "; unclean=True moves it all the same" if unclean else ""
    return RuntimeError(f"the leader of {topic}-{partition} cannot be moved to broker {to}: {why}{way}")
