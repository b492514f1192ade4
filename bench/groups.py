"""How long a big group of the newer protocols takes to come to rest, and what its heartbeats cost.

    python -m bench.groups                           # 100 members, 1,000 partitions, Odradek beside Kafka
    python -m bench.groups --members 20 --partitions 100 --peers odradek

Members are connections of one process: each says what it has, takes what it is given, and gives up what it is not, as
fast as it is answered, with a pause of 10 ms between two rounds of everybody. A group is at rest when all members are
in one epoch, and each partition is with one of them, in equal shares. The assignment interval is the brokers' default
of one second, which is most of the time until all have joined. A tenth leaves when it is over: what is measured then is
the brokers' own work, and not how much of the second the joining has left.
"""

from __future__ import annotations

import argparse
import os
import socket
import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.brokers import Running, running
from bench.quiet import Stopwatch
from bench.starved import framed
from odradek.wire import registry
from odradek.wire.errors import ErrorCode
from odradek.wire.messages import consumer_group_heartbeat_request as consumer
from odradek.wire.messages import streams_group_heartbeat_request as streams
from odradek.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from odradek.wire.registry import ApiKey

TICKS = os.sysconf("SC_CLK_TCK")
PAUSE_S = 0.01
LIMIT_S = 180.0
ASSIGNMENT_INTERVAL_S = 1.1
"""The brokers' default, and a little more."""
REBALANCE_MS = 300_000
TOPIC = "spread"
GROUP_RESOURCE = 32


def cpu_seconds(pid: int) -> float:
    """What a process has used of the processors, with all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Wire:
    """A connection that asks one thing at a time, or sends now and reads later."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, timeout=LIMIT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = self._socket.makefile("rb")
        self._asked: tuple[ApiKey, int] = (ApiKey.API_VERSIONS, 0)

    def send(self, api_key: ApiKey, version: int, request: Any) -> None:
        self._asked = api_key, version
        self._socket.sendall(framed(api_key, version, request))

    def receive(self) -> Any:
        api_key, version = self._asked
        (length,) = struct.unpack(">i", self._stream.read(4))
        body = self._stream.read(length)
        skipped = 4 + (registry.response_header_version(api_key, version) >= 1)
        return registry.decode(registry.response_type(api_key), body[skipped:], version)

    def ask(self, api_key: ApiKey, version: int, request: Any) -> Any:
        self.send(api_key, version, request)
        return self.receive()

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


@dataclass
class Member:
    """A member of either protocol."""

    name: str
    wire: Wire
    epoch: int = 0
    owned: set[int] = field(default_factory=set)
    beats: int = 0


@dataclass(frozen=True)
class Protocol:
    """How members of a protocol speak."""

    name: str
    api_key: ApiKey
    request: Callable[[str, Member, bytes], Any]
    given: Callable[[Any], set[int] | None]


def _consumer_request(group: str, member: Member, topic_id: bytes) -> Any:
    joins = member.epoch == 0
    owned = [consumer.TopicPartitions(topic_id=topic_id, partitions=sorted(member.owned))] if member.owned else []
    return consumer.ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member.name,
        member_epoch=member.epoch,
        rebalance_timeout_ms=REBALANCE_MS if joins else -1,
        subscribed_topic_names=[TOPIC] if joins else None,
        topic_partitions=owned,
    )


def _consumer_given(response: Any) -> set[int] | None:
    if response.assignment is None:
        return None
    return {index for each in response.assignment.topic_partitions for index in each.partitions}


def _streams_request(group: str, member: Member, topic_id: bytes) -> Any:
    joins = member.epoch == 0
    owned = [streams.TaskIds(subtopology_id="0", partitions=sorted(member.owned))] if member.owned else []
    topology = streams.Topology(epoch=0, subtopologies=[streams.Subtopology(subtopology_id="0", source_topics=[TOPIC])])
    return streams.StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id=member.name,
        member_epoch=member.epoch,
        rebalance_timeout_ms=REBALANCE_MS if joins else -1,
        topology=topology if joins else None,
        process_id=member.name if joins else None,
        active_tasks=owned,
        standby_tasks=[],
        warmup_tasks=[],
    )


def _streams_given(response: Any) -> set[int] | None:
    if response.active_tasks is None:
        return None
    return {index for each in response.active_tasks for index in each.partitions}


PROTOCOLS = (
    Protocol("consumer", ApiKey.CONSUMER_GROUP_HEARTBEAT, _consumer_request, _consumer_given),
    Protocol("streams", ApiKey.STREAMS_GROUP_HEARTBEAT, _streams_request, _streams_given),
)


class Group:
    """All members, and the broker that they belong to."""

    def __init__(self, broker: Running, protocol: Protocol, members: int, partitions: int) -> None:
        host, port = broker.bootstrap.split(":")
        self.address = host, int(port)
        self.pid = broker.process.pid
        self.protocol = protocol
        self.partitions = partitions
        self.name = f"big-{protocol.name}"
        self.topic_id = prepare(self.address, self.name, partitions)
        self.members = [Member(f"member-{slot:04d}", Wire(self.address)) for slot in range(members)]

    def round(self, members: Iterable[Member]) -> int:
        """Everybody reports once, all at the same time; how many reports there were."""
        members = list(members)
        for member in members:
            request = self.protocol.request(self.name, member, self.topic_id)
            member.wire.send(self.protocol.api_key, 1, request)
        for member in members:
            response = member.wire.receive()
            if response.error_code != ErrorCode.NONE:
                raise RuntimeError(f"{member.name}: {ErrorCode(response.error_code).name} {response.error_message}")
            member.epoch = response.member_epoch
            given = self.protocol.given(response)
            if given is not None:
                member.owned = given
        return len(members)

    def rests(self) -> bool:
        owned = [index for member in self.members for index in member.owned]
        shares = [len(member.owned) for member in self.members]
        even = max(shares) - min(shares) <= 1 and len({member.epoch for member in self.members}) == 1
        return even and sorted(owned) == list(range(self.partitions))

    def come_to_rest(self) -> tuple[float, float, int]:
        """Seconds until the group is at rest, what the broker took of the processors meanwhile, and heartbeats."""
        began, cpu, beats = time.perf_counter(), cpu_seconds(self.pid), 0
        while not self.rests():
            if time.perf_counter() - began > LIMIT_S:
                raise RuntimeError(f"the group is not at rest after {LIMIT_S} s")
            beats += self.round(self.members)
            time.sleep(PAUSE_S)
        return time.perf_counter() - began, cpu_seconds(self.pid) - cpu, beats

    def leave(self, count: int) -> None:
        gone, self.members = self.members[:count], self.members[count:]
        for member in gone:
            member.epoch = -1
            member.owned = set()
            member.wire.ask(self.protocol.api_key, 1, self.protocol.request(self.name, member, self.topic_id))
            member.wire.close()

    def idle_beat(self, seconds: float) -> tuple[float, float]:
        """Microseconds of the broker's processor for a heartbeat of a group at rest, and from asking to the answer."""
        began, cpu, beats = time.perf_counter(), cpu_seconds(self.pid), 0
        while time.perf_counter() - began < seconds:
            for member in self.members:
                beats += self.round([member])
        passed = time.perf_counter() - began
        return (cpu_seconds(self.pid) - cpu) / beats * 1e6, passed / beats * 1e6

    def close(self) -> None:
        for member in self.members:
            member.wire.close()


def prepare(address: tuple[str, int], group: str, partitions: int) -> bytes:
    """The topic, the coordinator, and no delay before the first assignment; the id of the topic."""
    wire = Wire(address)
    topic = CreatableTopic(name=TOPIC, num_partitions=partitions, replication_factor=1)
    wire.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic], timeout_ms=60_000))
    config = AlterableConfig(name="streams.initial.rebalance.delay.ms", config_operation=0, value="0")
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=[config])
    wire.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest(resources=[resource]))
    finding = FindCoordinatorRequest(key_type=0, key=group)
    while wire.ask(ApiKey.FIND_COORDINATOR, 3, finding).error_code != ErrorCode.NONE:
        time.sleep(0.1)
    asking = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
    while True:
        found = wire.ask(ApiKey.METADATA, 12, asking).topics[0]
        if len(found.partitions) == partitions:
            break
        time.sleep(0.1)
    time.sleep(2)  # coordinators hear of topics and configs a little later
    wire.close()
    topic_id: bytes = found.topic_id
    return topic_id


def measured(peer: str, protocol: Protocol, given: argparse.Namespace) -> list[str]:
    """The cells of a row."""
    with running(peer) as broker:
        group = Group(broker, protocol, given.members, given.partitions)
        watch = Stopwatch(broker.process.pid)
        try:
            joined = group.come_to_rest()
            time.sleep(ASSIGNMENT_INTERVAL_S)
            group.leave(given.members // 10)
            left = group.come_to_rest()
            cost, latency = group.idle_beat(given.seconds)
        finally:
            group.close()
        others = watch.others()
    cells = [f"{figure[0]:.2f} s, {figure[1]:.2f} s, {figure[2]}" for figure in (joined, left)]
    return [protocol.name, peer, *cells, f"{cost:.0f}", f"{latency:.0f}", f"{others:.0%}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=5, help="of heartbeats while the group rests")
    parser.add_argument("--peers", default="odradek,kafka")
    given = parser.parse_args()
    print(f"{given.members} members over {given.partitions:,} partitions: until at rest, processor time, heartbeats\n")
    print("| protocol | broker | all join | a tenth leaves | heartbeat, µs of processor | µs until answered | others |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for protocol in PROTOCOLS:
        for peer in given.peers.split(","):
            print(f"| {' | '.join(measured(peer, protocol, given))} |", flush=True)


if __name__ == "__main__":
    main()
