"""Where the time of a produce request goes: one node, no sockets, under cProfile.

python -m bench.profile_produce                                                # one record of 100 bytes
python -m bench.profile_produce --record-bytes 100 --batch-bytes 16384         # as many as Java's producer sends
python -m bench.profile_produce --record-bytes 70 --more-bytes 70 --batch-bytes 16384   # of differing sizes, as JSON
"""

from __future__ import annotations

import argparse
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
from odradek.records.batch import HEADER_BYTES
from odradek.records.record import Record, build_batch
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.registry import encode

NOW = 1_700_000_000_000
TURNS, REQUESTS = 200, 20
"""What else the machine does makes a turn longer; the least of them is told."""
PROFILED = 4_000
LINES = 25
AROUND_BYTES = 20
"""More than a record takes besides its value."""


def frame(record_bytes: int = 100, batch_bytes: int = 0, more_bytes: int = 0) -> bytes:
    """Produce v9 of a batch of as many records as go into this size, one at least; each has up to `more_bytes` more."""
    count = max(1, (batch_bytes - HEADER_BYTES) // (record_bytes + more_bytes // 2 + AROUND_BYTES))
    sizes = Random(1)
    values = [bytes(record_bytes + sizes.randint(0, more_bytes)) for _ in range(count)]
    records = [Record(timestamp=NOW, key=None, value=value) for value in values]
    batch = build_batch(records)
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record-bytes", type=int, default=100)
    parser.add_argument("--batch-bytes", type=int, default=0)
    parser.add_argument("--more-bytes", type=int, default=0)
    given = parser.parse_args()
    broker, received = node(), Received(1, frame(given.record_bytes, given.batch_bytes, given.more_bytes))
    times = []
    for _ in range(TURNS):
        started = time.perf_counter()
        for _ in range(REQUESTS):
            broker.step(received, NOW)
        times.append((time.perf_counter() - started) / REQUESTS * 1e6)
    print(f"{min(times):.1f} us a request of {len(received.data):,} bytes")
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(PROFILED):
        broker.step(received, NOW)
    profile.disable()
    pstats.Stats(profile).sort_stats("tottime").print_stats(LINES)


if __name__ == "__main__":
    main()
