"""The records that the scenarios of the Python clients write and read."""

import time

from interface import Client, Options, Record, check

__all__ = ["produce", "read", "value"]

PADDING = "x" * 86


def value(i: int) -> bytes:
    return f"record-{i:06d}-{PADDING}".encode()


def produce(client: Client, options: Options, first: int, end: int, *, idempotent: bool = False) -> None:
    """Record i goes to partition i % partitions; the offsets given back must follow one another."""
    numbers = range(first, end)
    records = [(i % options.partitions, str(i).encode(), value(i)) for i in numbers]
    offsets = client.produce(options.topic, records, compression=options.compression, idempotent=idempotent)
    check(len(offsets) == len(records), f"produced {len(offsets)} of {len(records)} records")
    following: dict[int, int] = {}
    for i, offset in zip(numbers, offsets, strict=True):
        partition = i % options.partitions
        expected = following.get(partition, offset)
        check(offset == expected, f"offset {offset} given in partition {partition}, expected {expected}")
        following[partition] = offset + 1


def read(client: Client, options: Options, topic: str, isolation: str, expected: int) -> dict[int, list[Record]]:
    """The records by partition: the expected number, then half a second more for those that should not come."""
    found: dict[int, list[Record]] = {}
    count = 0
    quiet = False
    reader = client.reader(topic, options.partitions, isolation)
    try:
        end = time.monotonic() + options.timeout
        while time.monotonic() < end:
            if count >= expected and not quiet:
                quiet, end = True, time.monotonic() + 0.5
            for record in reader.poll(0.1):
                found.setdefault(record.partition, []).append(record)
                count += 1
    finally:
        reader.close()
    check(count == expected, f"read {count} records {isolation}, expected {expected}")
    return found
