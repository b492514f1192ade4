"""What a test asks of a broker beside its protocol: quotas, logs, a listener for the controller alone."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from functools import partial

from tests.kafka.requests import (
    AppendRecords,
    CleanLog,
    CutLog,
    FindOffset,
    ReadLog,
    ReadLogins,
    ReadQuota,
    ReadThrottles,
    RollLog,
)

from odradek.core.machine import Refused
from odradek.log.partition import Partition
from odradek.net.cluster import RunningCluster
from odradek.net.driver import Driver
from odradek.records.batch import batches

__all__ = ["Look", "look"]

Look = AppendRecords | CleanLog | CutLog | FindOffset | ReadLog | ReadLogins | ReadQuota | ReadThrottles | RollLog
CONTROLLER = -1
"""In place of a broker's id: whoever is the controller."""
STEPS_MAX = 1000


def look(cluster: RunningCluster, asked: Look) -> Mapping[str, object]:
    """Do what is asked. Raises LookupError or ValueError for what cannot be done."""
    match asked:
        case ReadQuota():
            return _quota(cluster, asked)
        case ReadThrottles():
            return _throttles(cluster)
        case ReadLogins():
            return _logins(cluster)
        case AppendRecords(batches=told):
            return _at_leader(cluster, asked, lambda driver, partition: _append(driver, partition, told))
        case CutLog(offset=offset, ends=ends):
            return _at_leader(cluster, asked, lambda _, partition: _cut(partition, offset, ends=ends))
        case FindOffset(timestamp=timestamp):
            return _at_leader(cluster, asked, lambda _, partition: _find(partition, timestamp))
        case ReadLog():
            return _at_leader(cluster, asked, lambda _, partition: _read(partition))
        case RollLog():
            return _at_leader(cluster, asked, lambda _, partition: _roll(partition))
        case CleanLog():
            return _at_leader(cluster, asked, lambda driver, partition: _clean(driver, partition))


# ---------------------------------------------------------------------- quotas


def _quota(cluster: RunningCluster, asked: ReadQuota) -> Mapping[str, object]:
    quotas = cluster.node(cluster.spec.controller_id if asked.broker == CONTROLLER else asked.broker).quotas
    usage = None if quotas is None else quotas.of(asked.key)
    if usage is None:
        return {"limit": None, "used": False, "count": 0, "throttled_ms": 0}
    sharers = usage.limits.sharers(asked.user, asked.client_id)
    count, throttled_ms = usage.throttles.get(sharers, (0, 0))
    used = usage.knows(sharers)
    return {"limit": usage.limits.of(sharers), "used": used, "count": count, "throttled_ms": throttled_ms}


def _throttles(cluster: RunningCluster) -> Mapping[str, object]:
    sums: dict[str, tuple[int, int]] = {}
    for driver in cluster.drivers.values():
        quotas = driver.node.quotas
        for key, _, _, count, total_ms in () if quotas is None else quotas.throttles():
            counted, so_far_ms = sums.get(key, (0, 0))
            sums[key] = counted + count, so_far_ms + total_ms
    return {key: total_ms / count for key, (count, total_ms) in sums.items()}


def _logins(cluster: RunningCluster) -> Mapping[str, object]:
    counted = {node_id: driver.node.counters for node_id, driver in cluster.drivers.items()}
    return {
        str(node_id): {"expired": each.sessions_expired, "refused": each.logins_again_refused}
        for node_id, each in counted.items()
    }


# ---------------------------------------------------------------------- logs


def _at_leader(
    cluster: RunningCluster,
    asked: AppendRecords | CleanLog | CutLog | FindOffset | ReadLog | RollLog,
    act: Callable[[Driver, Partition], Mapping[str, object]],
) -> Mapping[str, object]:
    for driver in cluster.drivers.values():
        partition = driver.node.partitions.get((asked.topic, asked.partition))
        if partition is not None and partition.is_leader and not driver.stopped:
            return driver.act(partial(act, driver, partition))
    raise LookupError(f"nobody leads {asked.topic}-{asked.partition}")


def _append(driver: Driver, partition: Partition, told: bytes) -> Mapping[str, object]:
    first = partition.log_end_offset
    for batch in batches(memoryview(bytearray(told))):
        appended = partition.append_client(batch, now=driver.node.clock.now, verification_enabled=False)
        if isinstance(appended, Refused):
            raise ValueError(f"the log refuses it: {appended.error.name}")
    return {"first": first, "last": partition.log_end_offset - 1}


def _cut(partition: Partition, offset: int, *, ends: bool) -> Mapping[str, object]:
    if ends:
        partition.log.truncate(offset)
    else:
        partition.log.advance_start(offset)
    return {}


def _find(partition: Partition, timestamp: int) -> Mapping[str, object]:
    found = partition.list_offset(timestamp)
    return {"offset": found.offset, "timestamp": found.timestamp, "epoch": found.leader_epoch}


def _read(partition: Partition) -> Mapping[str, object]:
    segments: list[bytes] = []
    for segment in partition.log.segments:
        held = partition.log.batches(segment.base_offset)
        until = segment.next_offset
        segments.append(b"".join(bytes(batch.view) for batch in held if batch.base_offset < until))
    return {"segments": [base64.b64encode(each).decode() for each in segments]}


def _roll(partition: Partition) -> Mapping[str, object]:
    partition.log.seal()
    return {}


def _clean(driver: Driver, partition: Partition) -> Mapping[str, object]:
    for _ in range(STEPS_MAX):
        if not partition.compact(driver.node.clock.now):
            break
    return {"until": partition.log.first_dirty_offset}
