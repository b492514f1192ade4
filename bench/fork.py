"""What a fork costs beside making its state anew: a million records, a hundred topics, three brokers; and on disk.

    python -m bench.fork
    python -m bench.fork --records 100000 --forks 10

Each state is made once with confluent-kafka and has a transaction that hangs, offsets pending in it, and a group with
offsets. Then forks of it are made and ended in turns with new, empty clusters of the same kind, in one event loop; the
figures are medians, wall and processor time. `first append` is a Produce of one record to a partition whose active
segment the fork has not copied yet. Memory is what Python has allocated for each of several forks that run at once.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.net.client import BlockingClient
from odradek.records.record import Record, build_batch
from odradek.testing import Cluster, Snapshot
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

__all__ = ["main"]

AT_ONCE = 10
VALUE = b"v" * 100
TIMEOUT_S = 120


def fill(bootstrap: str, topics: int, records: int) -> None:
    """The state: records, a hanging transaction with pending offsets, a group."""
    common: dict[str, Any] = {"bootstrap.servers": bootstrap}
    producer = Producer({**common, "queue.buffering.max.messages": 2_000_000, "linger.ms": 50})
    for number in range(records):
        producer.produce(f"t{number % topics}", VALUE)
        if not number % 10_000:
            producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    till = Producer({**common, "transactional.id": "till", "transaction.timeout.ms": 600_000})
    till.init_transactions(TIMEOUT_S)
    till.begin_transaction()
    till.produce("t0", b"open")
    till.flush(TIMEOUT_S)
    reader = Consumer({**common, "group.id": "g"})
    reader.commit(offsets=[TopicPartition("t0", 0, 1)], asynchronous=False)
    till.send_offsets_to_transaction([TopicPartition("t0", 0, 2)], reader.consumer_group_metadata(), TIMEOUT_S)
    reader.close()


def append(bootstrap: str) -> float:
    """Seconds that the Produce of one record takes."""
    client = BlockingClient(bootstrap.partition(",")[0], client_id="bench")
    data = PartitionProduceData(index=0, records=memoryview(build_batch([Record(timestamp=0, value=b"v")])))
    request = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name="t0", partition_data=[data])]
    )
    began = time.perf_counter()
    client.ask(request, 9)
    took = time.perf_counter() - began
    client.close()
    return took


async def started(**arguments: Any) -> tuple[Cluster, float, float]:
    """A cluster that runs, and the wall and processor time (ms) until clients could connect."""
    wall, cpu = time.perf_counter(), time.process_time()
    cluster = Cluster(log_level="error", **arguments)
    await cluster.__aenter__()
    return cluster, (time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3


async def ended(cluster: Cluster) -> None:
    await cluster.__aexit__(None, None, None)


async def measured(
    name: str, kind: Mapping[str, Any], topics: int, records: int, forks: int, folder: Path | None
) -> None:
    """Make a state, fork it, print a row."""
    where = {} if folder is None else {"data_dir": folder / "origin"}
    began = time.perf_counter()
    origin, *_ = await started(**kind, **where)
    await asyncio.to_thread(fill, origin.bootstrap, topics, records)
    made_s = time.perf_counter() - began
    began = time.perf_counter()
    snapshot = origin.snapshot(None if folder is None else folder / "snapshot")
    taken_ms = (time.perf_counter() - began) * 1e3
    await ended(origin)
    each = await _memory(snapshot, folder)
    new: list[tuple[float, float]] = []
    forked: list[tuple[float, float]] = []
    appends: list[float] = []
    for number in range(forks):
        place = {} if folder is None else {"data_dir": folder / f"new{number}"}
        cluster, *took = await started(**kind, **place)
        new.append((took[0], took[1]))
        await ended(cluster)
        cluster, *took = await started(from_=snapshot, **_place(folder, number))
        forked.append((took[0], took[1]))
        if number % 4 == 0 and "brokers" not in kind:
            appends.append(await asyncio.to_thread(append, cluster.bootstrap))
        await ended(cluster)
    wall, cpu = (statistics.median(column) for column in zip(*forked, strict=True))
    best = min(one for one, _ in forked)
    new_wall, new_cpu = (statistics.median(column) for column in zip(*new, strict=True))
    first = f"{statistics.median(appends) * 1e3:.1f} ms" if appends else "–"
    print(
        f"| {name} | {made_s:.1f} s | {taken_ms:.1f} ms | {wall:.1f} ms ({best:.1f}; {cpu:.1f}) "
        f"| {made_s * 1e3 / wall:,.0f} | {new_wall:.1f} ms ({new_cpu:.1f}) | {first} | {each / 1024:,.0f} KiB |",
        flush=True,
    )


async def _memory(snapshot: Snapshot, folder: Path | None) -> float:
    """Bytes that Python has allocated for each of several forks that run at once."""
    first, *_ = await started(from_=snapshot, **_place(folder, -1))
    await ended(first)
    tracemalloc.start()
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    running = [(await started(from_=snapshot, **_place(folder, -2 - number)))[0] for number in range(AT_ONCE)]
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    for cluster in running:
        await ended(cluster)
    return (after - before) / AT_ONCE


def _place(folder: Path | None, number: int) -> dict[str, Path]:
    return {} if folder is None else {"data_dir": folder / f"fork{number}"}


async def _all(records: int, forks: int, only: str) -> None:
    hundred = [f"t{number}" for number in range(100)]
    million = f"{records:,} records"
    states: list[tuple[str, dict[str, Any], int, int, bool]] = [
        (f"{million}, 1 topic of 6 partitions", {"topics": ["t0:6"]}, 1, records, False),
        (f"{records // 10:,} records, 100 topics", {"topics": hundred}, 100, records // 10, False),
        (f"{million}, 3 brokers", {"topics": ["t0:6"], "brokers": 3}, 1, records, False),
        (f"{million}, on disk", {"topics": ["t0:6"]}, 1, records, True),
        (f"{records // 10:,} records, 100 topics, on disk", {"topics": hundred}, 100, records // 10, True),
        (f"{million}, 3 brokers, on disk", {"topics": ["t0:6"], "brokers": 3}, 1, records, True),
    ]
    print(
        "| state | made in | snapshot | fork: median (least; processor) | times as fast "
        "| a new empty cluster (processor) | first append | memory of a fork |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, kind, topics, count, on_disk in states:
        if only not in name:
            continue
        if on_disk:
            with tempfile.TemporaryDirectory(prefix="odradek-fork-") as folder:
                await measured(name, kind, topics, count, forks, Path(folder))
        else:
            await measured(name, kind, topics, count, forks, None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--forks", type=int, default=30)
    parser.add_argument("--only", default="", help="states whose name contains this text")
    given = parser.parse_args()
    print(f"load average: {os.getloadavg()[0]:.1f}, processors: {os.cpu_count()}\n")
    asyncio.run(_all(given.records, given.forks, given.only))


if __name__ == "__main__":
    main()
