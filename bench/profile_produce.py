"""Where the time of a small produce request goes: one node, no sockets, under cProfile.

python -m bench.profile_produce
"""

from __future__ import annotations

import cProfile
import pstats
import struct
import time
from random import Random

from odradek.broker import Node
from odradek.cli.logs import make_logger
from odradek.config.table import Config
from odradek.host.cluster_spec import BrokerSpec, ClusterSpec
from odradek.host.events import Connected, Received, Started
from odradek.log.log_store import LogStore
from odradek.metadata.controller_role import StartTopic
from odradek.records.record import Record, build_batch
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.registry import encode

NOW = 1_700_000_000_000
REQUESTS = 20_000
LINES = 25


def frame() -> bytes:
    """Produce v9 of one record of 100 bytes."""
    batch = build_batch([Record(timestamp=NOW, key=None, value=bytes(100))])
    data = PartitionProduceData(index=0, records=memoryview(batch))
    request = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="t", partition_data=[data])])
    body = struct.pack(">hhih", 0, 9, 1, 5) + b"bench\0" + encode(request, 9)
    return struct.pack(">i", len(body)) + body


def node() -> Node:
    """A broker with one topic and one client."""
    made = Node(
        node_id=1,
        config=Config(),
        store=LogStore(bytes_max=1 << 30),
        cluster=ClusterSpec("bench", 1, (BrokerSpec(1, "localhost", 9092),)),
        random=Random(1),
        log=make_logger(level="error"),
        now=NOW,
    )
    made.controller.topics_at_start = (StartTopic("t", 1),)
    made.step(Started(), NOW)
    made.step(Connected(1, "localhost", 1), NOW)
    return made


def main() -> None:
    """Print the time of a request without the profiler, then the profile."""
    broker, received = node(), Received(1, frame())
    started = time.perf_counter()
    for _ in range(REQUESTS):
        broker.step(received, NOW)
    print(f"{(time.perf_counter() - started) / REQUESTS * 1e6:.1f} us a request")
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(REQUESTS):
        broker.step(received, NOW)
    profile.disable()
    pstats.Stats(profile).sort_stats("tottime").print_stats(LINES)


if __name__ == "__main__":
    main()
