"""Actions on a running cluster, from its own event loop; `testing.Cluster` and the hub use them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.config.keys import INT_MAX
from odradek.core.internal_topics import CoordinatorKind, partition_for
from odradek.core.machine import Refused
from odradek.faults.armed import Armed
from odradek.metadata.api.listener_certificates import ListenerCertificates
from odradek.metadata.brokers import may_lead
from odradek.metadata.configs import Operation, Step
from odradek.metadata.image import ResourceType
from odradek.net.outside import deed
from odradek.txn.entry import EPOCH_MAX
from odradek.txn.epochs import force_epoch
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.broker import Node
    from odradek.metadata.controller_role import ControllerRole
    from odradek.net.cluster import RunningCluster

__all__ = ["Controls"]

__tracebackhide__ = True
"""Refuse an impossible action in one sentence: pytest leaves these frames out of the tracebacks of tests."""


class Controls:
    """Actions on one cluster. Nothing here waits: messages between brokers follow in later turns of the loop.

    Decisions of the controller, however, are known to every running broker when the method returns.

    Every method raises LookupError for things that do not exist, RuntimeError for actions that are impossible now, and
    ValueError for invalid values.
    """

    def __init__(self, cluster: RunningCluster) -> None:
        self._cluster = cluster
        self.outside = cluster.outside

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
        """The leader of a partition; -1 if there is none."""
        registered = self.node().image.partition(topic, partition)
        if registered is None:
            raise LookupError(f"there is no partition {partition} of topic {topic}")
        return self._cluster.leads(registered)

    def advertise(self, broker: int, *, port: int, host: str | None = None, listener: str | None = None) -> None:
        """Change the advertised address of a broker's listener; the broker still listens at its old one."""
        self.known(broker)
        self._cluster.advertise(broker, port=port, host=host, listener=listener)

    def reload_certificates(self) -> None:
        """Read the keys and certificates of every listener again, for new connections."""
        self._cluster.reload_certificates()

    @deed
    def remove_rule(self, armed: Armed) -> None:
        """Apply a rule no longer; what it holds is served."""
        self._cluster.rules.remove(armed)

    @deed
    def release(self, armed: Armed, count: int | None = None) -> int:
        """Serve the requests that a rule holds, all or so many; their number."""
        return self._cluster.rules.release(armed, count)

    @deed
    def clear_rules(self) -> None:
        """Remove every rule, and forget what any of them expects."""
        self._cluster.rules.clear()

    @deed
    def move_leader(self, topic: str, partition: int, *, to: int | None, unclean: bool = False) -> int:
        """Give a partition to another broker, or to the same one in a new leader epoch; it replays the log.

        Without a broker it is the next running one in sync, by id. Raises RuntimeError for one that is out of sync,
        unless the move may be `unclean`: records that it lacks are then lost, even committed ones. Returns the id of
        the new leader.
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
        # A replica is preferred over a broker to which the data would have to be copied first.
        able.sort(key=lambda each: (each == present, each not in registered.replicas, each < present, each))
        if not able:
            isr = sorted(registered.isr)
            raise RuntimeError(
                f"the leader of {topic}-{partition} cannot be moved: {ErrorCode.BROKER_NOT_AVAILABLE.name}, "
                f"no broker in sync runs (the ISR is {isr})"
            )
        return able[0]

    @deed
    def move_coordinator(self, kind: CoordinatorKind, key: str, *, to: int | None = None, unclean: bool = False) -> int:
        """Move the coordinator of a group or transactional id as `move_leader` does; returns its new broker."""
        topic = self.node().image.topic(kind.topic)
        if topic is None:
            raise LookupError(f"there is no {kind.topic} yet")
        index = partition_for(key, len(topic.partitions))
        return self.move_leader(kind.topic, index, to=to, unclean=unclean)

    @deed
    def set_coordinator_load_ms(self, milliseconds: int) -> None:
        """From now on coordinators take this long (ms) to load, and answer COORDINATOR_LOAD_IN_PROGRESS meanwhile."""
        if not 0 <= milliseconds <= INT_MAX:
            raise ValueError(f"coordinators take no {milliseconds} ms to load: give 0 or more, up to {INT_MAX}")
        for node in self.nodes():
            node.coordinators.load_ms = milliseconds

    @deed
    def set_producer_epoch(self, transactional_id: str, epoch: int) -> None:
        """Give an idle transactional id this epoch, as after a long life of its producer."""
        if not 0 <= epoch <= EPOCH_MAX:
            raise ValueError(f"a producer epoch is a number from 0 to {EPOCH_MAX}, not {epoch}")
        for driver in self._cluster.drivers.values():
            if driver.stopped:
                continue
            shard = driver.node.transaction_coordinators.of(transactional_id)
            if not isinstance(shard, Refused):
                driver.act(lambda shard=shard: force_epoch(shard, transactional_id, epoch))  # type: ignore[misc]
                return
        raise LookupError(f"no broker has loaded the coordinator of {transactional_id}")

    @deed
    def set_feature(self, name: str, level: int) -> None:
        """Finalize another level of a feature, as an operator does with UpdateFeatures."""
        error = self._cluster.decide(lambda controller: _set_feature(controller, name, level))
        if error is not None:
            raise ValueError(error)

    @deed
    def alter_configs(self, resource_type: ResourceType, name: str, changes: Mapping[str, str | None]) -> None:
        """Set configs, as an operator does with IncrementalAlterConfigs; None deletes a value."""
        if resource_type == ResourceType.BROKER and name:
            # Only the broker knows its certificates, so the controller cannot check them.
            steps = [
                Step(key, Operation.DELETE if value is None else Operation.SET, value) for key, value in changes.items()
            ]
            failure = ListenerCertificates(self.node(int(name))).complaint(steps)
            if failure is not None:
                raise ValueError(failure.message)
        error = self._cluster.decide(lambda controller: controller.alter_configs(resource_type, name, changes))
        if error is not None:
            raise ValueError(error)

    @deed
    def disconnect_clients(self) -> None:
        """Close every connection of a client. Requests that are under way are served, and their answers are lost."""
        for driver in self._cluster.drivers.values():
            driver.hang_up_clients()

    @deed
    def stop_broker(self, broker: int, *, cleanly: bool = False, fence_after_ms: int = 0) -> None:
        """Stop a broker, cleanly or as in a crash; others take over its partitions, at once or after a time.

        It may be stopped already.
        """
        self._cluster.stop_broker(self.known(broker), cleanly=cleanly, fence_after_ms=fence_after_ms)

    @deed
    def start_broker(self, broker: int) -> None:
        """Start a stopped broker again, at the same address. It may run already."""
        if self._cluster.drivers[self.known(broker)].stopped:
            self._cluster.start_broker(broker)

    @deed
    def set_replica_lag(self, broker: int, milliseconds: int | None) -> None:
        """From now on the replicas of a broker acknowledge after this time; None: never."""
        node_id = self.known(broker)
        self._cluster.decide(lambda controller: controller.set_replica_lag(node_id, milliseconds))

    @deed
    def pause_broker(self, broker: int) -> None:
        """Pause a broker: its connections stay open, but it receives nothing from clients or other brokers.

        If it is paused already, nothing changes.
        """
        self._cluster.pause_broker(self._alive(broker))

    @deed
    def resume_broker(self, broker: int) -> None:
        """Resume a paused broker; waiting input comes first. It may not be paused at all."""
        self._cluster.resume_broker(self._alive(broker))

    def _alive(self, broker: int) -> int:
        if self._cluster.drivers[self.known(broker)].stopped:
            raise RuntimeError(f"broker {broker} is stopped")
        return broker


def _set_feature(controller: ControllerRole, name: str, level: int) -> str | None:
    """The reason why a feature cannot have a level, or None; its present level is always possible."""
    return None if controller.image.feature(name) == level else controller.set_feature(name, level)


def _unmoved(topic: str, partition: int, to: int, refused: Refused) -> RuntimeError:
    why = f"{refused.error.name}, {refused.message}" if refused.message else refused.error.name
    unclean = refused.error is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    way = "; unclean=True moves it all the same" if unclean else ""
    return RuntimeError(f"the leader of {topic}-{partition} cannot be moved to broker {to}: {why}{way}")
