"""The state of a running cluster as data, read in its event loop without changing anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from odradek.control.messages.clusters import BrokerView
from odradek.control.messages.deeds import TimeView
from odradek.control.messages.state import (
    BatchView,
    GroupMemberView,
    GroupView,
    GuardView,
    OffsetView,
    OpenTransactionView,
    ParkedView,
    PartitionSummary,
    PartitionView,
    TopicPartitionView,
    TransactionView,
)
from odradek.core.internal_topics import INTERNAL_TOPICS
from odradek.core.machine import Answered, Refused
from odradek.faults.armed import SeenRequest, seen
from odradek.records.control import read_marker
from odradek.wire.messages.offset_fetch_request import OffsetFetchRequestGroup

if TYPE_CHECKING:
    from odradek.broker import Node
    from odradek.core.flow import Pending
    from odradek.group.coordinator import GroupCoordinator
    from odradek.host.call import Call
    from odradek.log.partition import Partition
    from odradek.net.cluster import RunningCluster
    from odradek.net.driver import Driver
    from odradek.records.batch import Batch
    from odradek.txn.entry import Entry
    from odradek.txn.ledger import Ledger
    from odradek.wire.messages.list_groups_response import ListedGroup

__all__ = [
    "BATCHES",
    "broker_views",
    "group_size",
    "group_view",
    "group_views",
    "groups",
    "led_partitions",
    "parked_calls",
    "parked_view",
    "parked_views",
    "partition_offsets",
    "partition_summaries",
    "partition_view",
    "rules_by_wait",
    "running",
    "sent_to_itself",
    "time_view",
    "transaction_state",
    "transaction_view",
    "transaction_views",
    "transactions",
    "view_of_group",
    "view_of_partition",
    "view_of_transaction",
]

BATCHES = 10
"""The number of batches of a partition, unless another one is given."""


def running(cluster: RunningCluster) -> Iterator[Node]:
    """The brokers that are not stopped."""
    return (driver.node for driver in cluster.drivers.values() if not driver.stopped)


def broker_views(cluster: RunningCluster) -> list[BrokerView]:
    """Every broker, by id."""
    return [_broker(cluster, node_id) for node_id in sorted(cluster.drivers)]


def _broker(cluster: RunningCluster, node_id: int) -> BrokerView:
    driver = cluster.drivers[node_id]
    spec = cluster.spec.broker(node_id)
    node = driver.node
    connections = [] if driver.stopped else list(node.connections.values())
    return BrokerView(
        id=node_id,
        host=spec.host,
        port=spec.port,
        state=_state(driver),
        fenced=not cluster.controller.node.image.is_alive(node_id),
        controller=node_id == cluster.spec.controller_id and not driver.stopped,
        connections=sum(not connection.broker for connection in connections),
        parked=sum(connection.parked is not None for connection in connections),
        leads=0 if driver.stopped else node.replicas.asleep + sum(each.is_leader for each in node.partitions.values()),
        now_ms=node.clock.now,
    )


def _state(driver: Driver) -> str:
    if driver.stopped:
        return "stopped"
    return "paused" if driver.paused else "running"


def time_view(cluster: RunningCluster) -> TimeView:
    """The current time of the brokers."""
    clock = cluster.clock
    return TimeView(now_ms=clock.now(), ahead_ms=clock.ahead_ms, frozen=clock.frozen)


def parked_views(cluster: RunningCluster) -> list[ParkedView]:
    """Every request that waits for something, the oldest first."""
    now, rules = cluster.clock.now(), rules_by_wait(cluster)
    parked = [
        parked_view(node, call, wait, now - since, rules)
        for node in running(cluster)
        for call, wait, since in parked_calls(node)
    ]
    own = [view for view, _ in sent_to_itself(cluster)]
    return sorted([*parked, *own], key=lambda view: -view.age_ms)


def sent_to_itself(cluster: RunningCluster) -> Iterator[tuple[ParkedView, SeenRequest]]:
    """Requests that a broker sent to itself, such as markers for a partition that it leads, and a rule holds."""
    if not cluster.has_rules:
        return
    now, nodes = cluster.clock.now(), {node.node_id: node for node in running(cluster)}
    listed = {id(wait) for node in nodes.values() for _, wait, _ in parked_calls(node)}
    for armed in cluster.rules:
        kept: list[tuple[int, object, SeenRequest, int]] = [
            (each.node_id, each.wait, each.request, each.request.at_ms) for each in armed.holding
        ]
        delayed = [(each, nodes[each.node_id]) for each in armed.postponing if each.node_id in nodes]
        kept += [(each.node_id, each.wait, seen(node, each.call), each.since_ms) for each, node in delayed]
        for node_id, wait, request, since in kept:
            if id(wait) in listed or node_id not in nodes or request.sender != "broker":
                continue  # clients' requests have connections, as long as their clients wait
            view = ParkedView(
                broker=node_id,
                api=request.api,
                version=request.version,
                correlation_id=request.correlation_id,
                client_id=request.client_id,
                from_broker=True,
                waits_for=[],
                rule=armed.name,
                age_ms=now - since,
                deadline_ms=nodes[node_id].kernel.deadline_of(wait),
            )
            yield view, request


def rules_by_wait(cluster: RunningCluster) -> dict[int, str]:
    """The rules that hold requests, by the identity of the wait."""
    if not cluster.has_rules:
        return {}
    held = {id(each.wait): armed.name for armed in cluster.rules for each in armed.holding}
    return held | {id(each.wait): armed.name for armed in cluster.rules for each in armed.postponing}


def parked_calls(node: Node) -> Iterator[tuple[Call, Pending | None, int]]:
    """The parked requests of a broker: each with its wait, and since when (ms)."""
    for connection in node.connections.values():
        if connection.parked is not None:
            call, flow, since = connection.parked
            yield call, flow.waiting, since


def parked_view(node: Node, call: Call, wait: Pending | None, age_ms: int, rules: dict[int, str]) -> ParkedView:
    """A parked request, and the rule that holds it, if one does."""
    return ParkedView(
        broker=node.node_id,
        api=call.api_key.name,
        version=call.version,
        correlation_id=call.correlation_id,
        client_id=call.client_id,
        from_broker=call.is_broker,
        waits_for=[_key_text(key) for key in node.purgatory.keys_of(wait)],
        rule=rules.get(id(wait)),
        age_ms=age_ms,
        deadline_ms=node.kernel.deadline_of(wait),
    )


def _key_text(key: object) -> str:
    return " ".join(_key_text(part) for part in key) if isinstance(key, tuple) else str(key)


def transaction_views(cluster: RunningCluster) -> list[TransactionView]:
    """Every transactional id that a coordinator knows, by name."""
    views = [view_of_transaction(*each) for each in transactions(cluster)]
    return sorted(views, key=lambda view: view.transactional_id)


def transactions(cluster: RunningCluster) -> Iterator[tuple[Node, Ledger, Entry]]:
    """Every transactional id that a coordinator knows, with its coordinator."""
    for node in running(cluster):
        for shard in node.transaction_coordinators.led():
            for entry in shard.machine.entries():
                yield node, shard.machine, entry


def transaction_view(cluster: RunningCluster, transactional_id: str) -> TransactionView | None:
    """One transactional id; None if no coordinator knows it."""
    found = _transaction(cluster, transactional_id)
    return None if found is None else view_of_transaction(*found)


def transaction_state(cluster: RunningCluster, transactional_id: str) -> str | None:
    """The state of a transactional id, in microseconds; None if no coordinator knows it."""
    found = _transaction(cluster, transactional_id)
    return None if found is None else found[2].state.title


def _transaction(cluster: RunningCluster, transactional_id: str) -> tuple[Node, Ledger, Entry] | None:
    for node in running(cluster):
        shard = node.transaction_coordinators.of(transactional_id)
        if not isinstance(shard, Refused):
            entry = shard.machine.entry(transactional_id)
            return None if entry is None else (node, shard.machine, entry)
    return None


def view_of_transaction(node: Node, ledger: Ledger, entry: Entry) -> TransactionView:
    """A transactional id as this coordinator has it."""
    return TransactionView(
        transactional_id=entry.transactional_id,
        state=entry.state.title,
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        coordinator=node.node_id,
        timeout_ms=entry.timeout_ms,
        start_ms=entry.start_timestamp,
        last_update_ms=entry.last_update_timestamp,
        partitions=[TopicPartitionView(topic=topic, partition=index) for topic, index in entry.partitions],
        owed_markers=[
            TopicPartitionView(topic=topic, partition=index) for topic, index in ledger.owing(entry.transactional_id)
        ],
        aborted_at_ms=ledger.aborted_at(entry.transactional_id),
    )


def group_views(cluster: RunningCluster) -> list[GroupView]:
    """Every group that a coordinator knows, by name."""
    views = [view_of_group(*each) for each in groups(cluster)]
    return sorted(views, key=lambda view: view.group_id)


def groups(cluster: RunningCluster) -> Iterator[tuple[Node, GroupCoordinator, ListedGroup]]:
    """Every group that a coordinator knows, with its coordinator."""
    for node in running(cluster):
        for shard in node.group_coordinators.led():
            for listed in shard.machine.listed((), ()):
                yield node, shard.machine, listed


def group_view(cluster: RunningCluster, group_id: str) -> GroupView | None:
    """One group; None if no coordinator knows it."""
    found = _group(cluster, group_id)
    return None if found is None else view_of_group(*found)


def group_size(cluster: RunningCluster, group_id: str) -> tuple[str, int] | None:
    """The state and number of members of a group, in microseconds; None if no coordinator knows it."""
    found = _group(cluster, group_id)
    return None if found is None else (found[2].group_state, len(found[1].members_of(group_id)))


def _group(cluster: RunningCluster, group_id: str) -> tuple[Node, GroupCoordinator, ListedGroup] | None:
    for node in running(cluster):
        shard = node.group_coordinators.of(group_id)
        if not isinstance(shard, Refused):
            listed = shard.machine.find(group_id)
            return None if listed is None else (node, shard.machine, listed)
    return None


def view_of_group(node: Node, machine: GroupCoordinator, listed: ListedGroup) -> GroupView:
    """A group as this coordinator has it."""
    return GroupView(
        group_id=listed.group_id,
        state=listed.group_state,
        type=listed.group_type,
        protocol_type=listed.protocol_type,
        coordinator=node.node_id,
        members=[
            GroupMemberView(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
            )
            for member in machine.members_of(listed.group_id)
        ],
        offsets=_offsets(machine, listed.group_id),
    )


def _offsets(machine: GroupCoordinator, group_id: str) -> list[OffsetView]:
    fetched = machine.fetch(OffsetFetchRequestGroup(group_id=group_id, topics=None), require_stable=False)
    if not isinstance(fetched, Answered):
        return []
    return [
        OffsetView(
            topic=topic.name,
            partition=partition.partition_index,
            offset=partition.committed_offset,
            metadata=partition.metadata,
        )
        for topic in fetched.reply.topics
        for partition in topic.partitions
    ]


def _led(cluster: RunningCluster, topic: str, index: int) -> tuple[Node, Partition] | None:
    for node in running(cluster):
        partition = node.replicas.led(topic, index)
        if not isinstance(partition, Refused):
            return node, partition
    return None


def partition_summaries(cluster: RunningCluster) -> list[PartitionSummary]:
    """Every partition that has a leader, but for those of internal topics; by name."""
    return [
        PartitionSummary(
            topic=topic,
            partition=index,
            leader=node.node_id,
            leader_epoch=partition.leader_epoch,
            log_start_offset=partition.log_start_offset,
            last_stable_offset=partition.last_stable_offset,
            high_watermark=partition.high_watermark,
        )
        for (topic, index), (node, partition) in sorted(led_partitions(cluster).items())
    ]


def led_partitions(cluster: RunningCluster) -> dict[tuple[str, int], tuple[Node, Partition]]:
    """Every partition that has a leader, with it, but for those of internal topics."""
    return {
        partition.key: (node, partition)
        for node in running(cluster)
        for partition in node.replicas.every()
        if partition.is_leader and partition.topic not in INTERNAL_TOPICS
    }


def partition_offsets(cluster: RunningCluster, topic: str, index: int) -> tuple[int, int] | None:
    """The last stable offset and high watermark of a partition, in microseconds; None if it has no leader."""
    led = _led(cluster, topic, index)
    return None if led is None else (led[1].last_stable_offset, led[1].high_watermark)


def partition_view(cluster: RunningCluster, topic: str, index: int, batches: int = BATCHES) -> PartitionView:
    """A partition as its leader has it, with this number of its newest batches.

    Raises LookupError if there is no such partition, or it has no leader.
    """
    led = _led(cluster, topic, index)
    if led is None:
        registered = cluster.controller.node.image.partition(topic, index)
        why = "there is no partition" if registered is None else "nobody leads partition"
        raise LookupError(f"{why} {index} of topic {topic}")
    return view_of_partition(*led, batches)


def view_of_partition(node: Node, partition: Partition, batches: int) -> PartitionView:
    """A partition as this broker, its leader, has it, with this number of its newest batches."""
    registered = node.image.partition(partition.topic, partition.index)
    assert registered is not None, "what is led is registered"
    state = partition.producers
    return PartitionView(
        topic=partition.topic,
        partition=partition.index,
        leader=node.node_id,
        leader_epoch=partition.leader_epoch,
        replicas=list(registered.replicas),
        isr=list(registered.isr),
        log_start_offset=partition.log_start_offset,
        last_stable_offset=partition.last_stable_offset,
        high_watermark=partition.high_watermark,
        log_end_offset=partition.log_end_offset,
        open_transactions=[
            OpenTransactionView(
                producer_id=producer_id, producer_epoch=state.epoch_of(producer_id), first_offset=first_offset
            )
            for first_offset, producer_id in state.ongoing.items()
        ],
        guards=[
            GuardView(
                producer_id=producer_id,
                producer_epoch=pending.producer_epoch,
                lowest_sequence=pending.lowest_sequence,
                since_ms=pending.since,
            )
            for producer_id, pending in state.guards.pending.items()
        ],
        last_batches=[_batch(batch) for batch in partition.newest_committed(batches)],
    )


def _batch(batch: Batch) -> BatchView:
    marker = read_marker(batch) if batch.is_control else None
    return BatchView(
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        records=batch.record_count,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.is_transactional,
        marker=None if marker is None else "COMMIT" if marker.commit else "ABORT",
        max_timestamp=batch.max_timestamp,
    )
