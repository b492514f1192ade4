"""The transactional scenarios of the Python clients."""

import time
from collections.abc import Callable

from interface import READ_COMMITTED, READ_UNCOMMITTED, Client, Failed, Options, Transactional, check, until
from records import produce, read

__all__ = ["transactions", "txn_offsets", "txn_timeout", "zombie"]

RECORDS_PER_TRANSACTION = 10


def send(producer: Transactional, options: Options, name: str) -> list[str]:
    """Begins a transaction and writes its records, named after it, to all partitions in turn."""
    producer.begin()
    values = [f"{name}-{i}" for i in range(RECORDS_PER_TRANSACTION)]
    for i, text in enumerate(values):
        producer.send(options.topic, i % options.partitions, name.encode(), text.encode())
    producer.flush()
    return values


def expect(client: Client, options: Options, isolation: str, values: list[str]) -> None:
    """The topic must hold exactly these values for a reader of this isolation level, in this order per partition."""
    expected: dict[int, list[str]] = {}
    for text in values:
        partition = int(text.rpartition("-")[2]) % options.partitions
        expected.setdefault(partition, []).append(text)
    records = read(client, options, options.topic, isolation, len(values))
    found = {partition: [record.value.decode() for record in inside] for partition, inside in records.items()}
    check(found == expected, f"{isolation} read {found}, expected {expected}")


def holds_back(client: Client, options: Options) -> bool:
    """True while the last stable offset of partition 0 is behind the end of the log."""
    stable = client.end_offset(options.topic, 0, READ_COMMITTED)
    return stable < client.end_offset(options.topic, 0, READ_UNCOMMITTED)


def refused(commit: Callable[[], None]) -> str:
    try:
        commit()
    except Exception as error:
        return repr(error)
    raise Failed("the commit was not refused")


def transactions(client: Client, options: Options, counts: dict[str, object]) -> None:
    client.create_topic(options.topic, options.partitions, {})
    producer = client.transactional(options.transactional_id)
    everything: list[str] = []
    committed: list[str] = []
    for n in range(options.transactions):
        values = send(producer, options, f"t{n}")
        everything += values
        if n % 2 == 0:
            producer.commit()
            committed += values
        else:
            producer.abort()
    last = send(producer, options, "open")
    expect(client, options, READ_UNCOMMITTED, everything + last)
    expect(client, options, READ_COMMITTED, committed)
    check(holds_back(client, options), "an open transaction does not hold back the last stable offset")
    producer.commit()
    expect(client, options, READ_COMMITTED, committed + last)
    producer.close()
    counts["transactions"] = options.transactions + 1
    counts["committed_records"] = len(committed + last)


def txn_offsets(client: Client, options: Options, counts: dict[str, object]) -> None:
    output = f"{options.topic}-out"
    for topic in (options.topic, output):
        client.create_topic(topic, options.partitions, {})
    produce(client, options, 0, options.records)
    producer = client.transactional(options.transactional_id)
    member = client.member(options.topic, options.group, records_max=max(1, options.records // 20))
    end = time.monotonic() + options.timeout
    copied = made = aborted = 0
    while copied < options.records:
        check(time.monotonic() < end, f"timed out with {copied} records copied in {made} transactions")
        records = member.poll(0.1)
        if not records:
            continue
        producer.begin()
        for record in records:
            producer.send(output, record.partition, record.key, record.value)
        offsets = {record.partition: record.offset + 1 for record in records}
        producer.send_offsets(options.topic, offsets, member)
        made += 1
        if made % 3 == 0:
            producer.abort()
            aborted += 1
            for record in reversed(records):  # back to the first of each partition
                member.seek(record.partition, record.offset)
        else:
            producer.commit()
            copied += len(records)
    committed = client.group_offsets(options.group, options.topic, options.partitions)
    ends = {partition: client.end_offset(options.topic, partition) for partition in range(options.partitions)}
    check(committed == ends, f"committed {committed}, expected {ends}")
    member.close()
    producer.close()
    found = read(client, options, output, READ_COMMITTED, options.records)
    keys = {record.key for records in found.values() for record in records}
    check(len(keys) == options.records, f"copied {len(keys)} different records of {options.records}")
    counts.update(transactions=made, aborted=aborted, records=copied)


def zombie(client: Client, options: Options, counts: dict[str, object]) -> None:
    client.create_topic(options.topic, options.partitions, {})
    old = client.transactional(options.transactional_id)
    committed = send(old, options, "before")
    old.commit()
    send(old, options, "zombie")
    owner = client.transactional(options.transactional_id)
    counts["fenced"] = refused(old.commit)
    committed += send(owner, options, "after")
    owner.commit()
    expect(client, options, READ_COMMITTED, committed)
    owner.close()


def txn_timeout(client: Client, options: Options, counts: dict[str, object]) -> None:
    client.create_topic(options.topic, options.partitions, {})
    slow = client.transactional(options.transactional_id, timeout_ms=1500)
    send(slow, options, "slow")
    until(options, "the coordinator to abort the transaction", lambda: not holds_back(client, options))
    counts["refused"] = refused(slow.commit)
    following = client.transactional(options.transactional_id)
    values = send(following, options, "next")
    following.commit()
    expect(client, options, READ_COMMITTED, values)
    following.close()
