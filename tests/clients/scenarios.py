"""The scenarios of the Python clients, played over the small interface that each family's program supplies.

A program is `PROGRAM --bootstrap HOST:PORT --scenario NAME --topic T ...` and prints one line of JSON; see README.md.
"""

import argparse
import dataclasses
import json
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

__all__ = ["Client", "Failed", "Member", "Options", "Reader", "Record", "Transactional", "check", "run", "until"]

RECORDS_PER_TRANSACTION = 10
PADDING = "x" * 86
READ_COMMITTED = "read_committed"
READ_UNCOMMITTED = "read_uncommitted"


class Record(NamedTuple):
    partition: int
    offset: int
    key: bytes
    value: bytes


class Reader(Protocol):
    """Reads all partitions of a topic from the beginning, outside any group."""

    def poll(self, seconds: float) -> list[Record]: ...
    def close(self) -> None: ...


class Member(Reader, Protocol):
    """A member of a consumer group that commits only when told to."""

    def assigned(self) -> set[int]: ...
    def commit(self) -> None:
        """Commits what was polled; a commit that comes too late for a rebalance is silently dropped."""

    def seek(self, partition: int, offset: int) -> None: ...


class Transactional(Protocol):
    """A transactional producer whose transactional id has been initialised."""

    def begin(self) -> None: ...
    def send(self, topic: str, partition: int, key: bytes, value: bytes) -> None: ...
    def flush(self) -> None: ...
    def send_offsets(self, topic: str, offsets: dict[int, int], member: Any) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


class Client(Protocol):
    """What a family supplies. A method that this release lacks raises NotImplementedError."""

    version: str

    def produce(self, topic: str, records: Iterable[tuple[int, bytes, bytes]], *, compression: str) -> list[int]:
        """Sends idempotently with acks=all; the offsets in the order of the records."""

    def reader(self, topic: str, partitions: int, isolation: str) -> Reader: ...
    def member(self, topic: str, group: str, *, records_max: int = 500) -> Member: ...
    def transactional(self, transactional_id: str, *, timeout_ms: int = 60_000) -> Transactional: ...

    def create_topic(self, topic: str, partitions: int, configs: dict[str, str]) -> None: ...
    def delete_topic(self, topic: str) -> None: ...
    def topics(self) -> set[str]: ...
    def partitions(self, topic: str) -> list[int]:
        """The number of in-sync replicas of each partition that has a leader."""

    def config(self, topic: str, name: str) -> str: ...
    def alter_config(self, topic: str, name: str, value: str) -> None: ...
    def create_partitions(self, topic: str, total: int) -> None: ...
    def start_offset(self, topic: str, partition: int) -> int: ...
    def end_offset(self, topic: str, partition: int, isolation: str = READ_UNCOMMITTED) -> int: ...
    def delete_records(self, topic: str, partition: int, before: int) -> None: ...
    def groups(self) -> set[str]: ...
    def group_offsets(self, group: str, topic: str, partitions: int) -> dict[int, int]:
        """The committed offsets; a partition without one is left out."""

    def commit_outside(self, group: str, topic: str, partition: int, offset: int) -> None: ...
    def delete_group(self, group: str) -> None: ...
    def brokers(self) -> int: ...


@dataclasses.dataclass(frozen=True)
class Options:
    """The one argument style of all client programs."""

    bootstrap: str
    scenario: str
    topic: str = "checked"
    group: str = ""
    transactional_id: str = ""
    compression: str = "none"
    records: int = 1000
    partitions: int = 3
    transactions: int = 20
    timeout: int = 60


class Failed(Exception):
    """The broker did not do as it should."""


def check(holds: object, message: str) -> None:
    if not holds:
        raise Failed(message)


def until(options: Options, what: str, holds: Callable[[], object]) -> None:
    end = time.monotonic() + options.timeout
    while not holds():
        check(time.monotonic() < end, f"timed out waiting for {what}")
        time.sleep(0.02)


def value(i: int) -> bytes:
    return f"record-{i:06d}-{PADDING}".encode()


def produce(client: Client, options: Options, first: int, end: int) -> None:
    """Record i goes to partition i % partitions; the offsets given back must follow one another."""
    numbers = range(first, end)
    records = [(i % options.partitions, str(i).encode(), value(i)) for i in numbers]
    offsets = client.produce(options.topic, records, compression=options.compression)
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


def produce_consume(client: Client, options: Options, counts: dict[str, object]) -> None:
    client.create_topic(options.topic, options.partitions, {})
    produce(client, options, 0, options.records)
    found = read(client, options, options.topic, READ_UNCOMMITTED, options.records)
    for partition, records in found.items():
        for n, record in enumerate(records):
            i = n * options.partitions + partition
            expected = Record(partition, n, str(i).encode(), value(i))
            check(record == expected, f"found {record}, expected {expected}")
    counts["records"] = options.records


class Joined(threading.Thread):
    """A member that polls and commits in a thread of its own until it is told to leave."""

    def __init__(self, client: Client, options: Options) -> None:
        super().__init__(daemon=True)
        self.own: list[int] = []
        self.assigned: set[int] = set()
        self.failure: BaseException | None = None
        self._leaving = threading.Event()
        self._member = client.member(options.topic, options.group)
        self.start()

    def run(self) -> None:
        try:
            while not self._leaving.is_set():
                records = self._member.poll(0.1)
                self.own.extend(int(record.key) for record in records)
                if records:
                    self._member.commit()
                self.assigned = self._member.assigned()
            self._member.close()
        except BaseException as error:
            traceback.print_exc()
            self.failure = error

    def leave(self) -> None:
        self._leaving.set()
        self.join(30)
        check(not self.is_alive(), "a member did not leave")
        check(self.failure is None, f"a member failed: {self.failure!r}")


def group(client: Client, options: Options, counts: dict[str, object]) -> None:
    n, again = options.records, 5
    client.create_topic(options.topic, options.partitions, {})
    produce(client, options, 0, n)
    first, second = Joined(client, options), Joined(client, options)

    def wait(what: str, members: Sequence[Joined], holds: Callable[[], object]) -> None:
        def settled() -> object:
            for member in members:
                check(member.failure is None, f"{what}: {member.failure!r}")
            return holds()

        until(options, f"{what} (assigned {[member.assigned for member in members]})", settled)

    def seen() -> int:
        return len({*first.own, *second.own})

    everything = set(range(options.partitions))
    wait(
        "two members to split the partitions",
        [first, second],
        lambda: (
            first.assigned
            and second.assigned
            and not first.assigned & second.assigned
            and first.assigned | second.assigned == everything
        ),
    )
    wait("the first records", [first, second], lambda: seen() == n)
    second.leave()
    wait("one member to take over all partitions", [first], lambda: first.assigned == everything)
    produce(client, options, n, 2 * n)
    wait("the second records", [first], lambda: seen() == 2 * n)
    first.leave()
    counts["repeated"] = len(first.own) + len(second.own) - 2 * n

    committed = client.group_offsets(options.group, options.topic, options.partitions)
    ends = {partition: client.end_offset(options.topic, partition) for partition in everything}
    check(committed == ends, f"committed {committed}, expected {ends}")
    client.commit_outside(options.group, options.topic, 0, ends[0] - again)
    produce(client, options, 2 * n, 3 * n)
    third = Joined(client, options)
    wait("a new member to resume", [third], lambda: len(third.own) >= n + again)
    time.sleep(0.3)
    third.leave()
    last = (2 * n - 1) // options.partitions * options.partitions  # the last record of partition 0 before the rewinding
    expected = [last - i * options.partitions for i in reversed(range(again))] + list(range(2 * n, 3 * n))
    check(sorted(third.own) == expected, f"resumed with {len(third.own)} records, expected exactly {len(expected)}")
    counts["records"] = 3 * n + again


def admin(client: Client, options: Options, counts: dict[str, object]) -> None:
    topic, name, more = options.topic, options.group, options.partitions + 2

    def create() -> None:
        client.create_topic(topic, options.partitions, {"retention.ms": "3600000"})

    def create_again() -> None:
        try:
            create()
        except Exception as error:
            check("exist" in repr(error).lower(), f"expected TOPIC_ALREADY_EXISTS, got {error!r}")
            return
        raise Failed("expected TOPIC_ALREADY_EXISTS")

    def describe() -> None:
        check(client.partitions(topic) == [1] * options.partitions, f"partitions {client.partitions(topic)}")

    def configs() -> None:
        check(client.config(topic, "retention.ms") == "3600000", f"retention.ms {client.config(topic, 'retention.ms')}")
        check(client.config(topic, "cleanup.policy") == "delete", "cleanup.policy has not its default")

    def alter_config() -> None:
        client.alter_config(topic, "max.message.bytes", "65536")
        until(options, "max.message.bytes", lambda: client.config(topic, "max.message.bytes") == "65536")

    def create_partitions() -> None:
        client.create_partitions(topic, more)
        until(options, "new partitions", lambda: client.partitions(topic) == [1] * more)

    def list_offsets() -> None:
        produce(client, options, 0, 10 * options.partitions)
        offsets = client.start_offset(topic, 0), client.end_offset(topic, 0)
        check(offsets == (0, 10), f"first and end offset {offsets}, expected 0 and 10")

    def delete_records() -> None:
        client.delete_records(topic, 0, 4)
        check(client.start_offset(topic, 0) == 4, f"first offset {client.start_offset(topic, 0)}, expected 4")

    def group_offsets() -> None:
        client.commit_outside(name, topic, 0, 7)
        check(name in client.groups(), f"{name} is not listed")
        found = client.group_offsets(name, topic, options.partitions)
        check(found == {0: 7}, f"group offsets {found}, expected 7 in partition 0")

    def delete_group() -> None:
        client.delete_group(name)
        found = client.group_offsets(name, topic, options.partitions)
        check(found == {}, f"offsets of a deleted group: {found}")

    def cluster() -> None:
        check(client.brokers() >= 1, "no brokers")

    def delete() -> None:
        check(topic in client.topics(), f"{topic} is not listed")
        client.delete_topic(topic)
        until(options, "the topic to be gone", lambda: topic not in client.topics())

    steps = [create, create_again, describe, configs, alter_config, create_partitions, list_offsets]
    steps += [delete_records, group_offsets, delete_group, cluster, delete]
    done = []
    for step in steps:
        title = step.__name__.replace("_", " ")
        try:
            step()
            done.append(title)
        except NotImplementedError:
            print(f"{title}: this release cannot", file=sys.stderr)
        except Exception as error:
            raise Failed(f"{title}: {error!r}") from error
    counts["steps"] = done


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


SCENARIOS: dict[str, Callable[[Client, Options, dict[str, object]], None]] = {
    "produce-consume": produce_consume,
    "group": group,
    "admin": admin,
    "transactions": transactions,
    "txn-offsets": txn_offsets,
    "zombie": zombie,
    "txn-timeout": txn_timeout,
}


def parse() -> Options:
    parser = argparse.ArgumentParser(description=__doc__)
    for field in dataclasses.fields(Options):
        required = field.default is dataclasses.MISSING
        default = None if required else field.default
        kind = field.type if isinstance(field.type, type) else str
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=kind, default=default, required=required)
    given = parser.parse_args()
    if given.scenario not in SCENARIOS:
        parser.error(f"--scenario is one of {', '.join(SCENARIOS)}")
    given.group = given.group or f"{given.topic}-group"
    given.transactional_id = given.transactional_id or f"{given.topic}-id"
    return Options(**vars(given))


def run(connect: Callable[[str], Client]) -> None:
    """Plays the scenario that the command line names and ends the process."""
    options = parse()
    counts: dict[str, object] = {}
    error = None
    unsupported = False
    version = ""
    start = time.monotonic()
    try:
        client = connect(options.bootstrap)
        version = client.version
        SCENARIOS[options.scenario](client, options, counts)
    except Exception as raised:
        traceback.print_exc()
        unsupported = isinstance(raised, NotImplementedError)
        error = str(raised) if isinstance(raised, Failed) else repr(raised)
    result = {
        "ok": error is None,
        "client": version,
        "scenario": options.scenario,
        "seconds": round(time.monotonic() - start, 3),
        "counts": counts,
        "error": error,
        "unsupported": unsupported,
    }
    print(json.dumps(result), flush=True)
    sys.stdout.flush()
    sys.stderr.flush()
    _leave(0 if error is None else 3 if unsupported else 1)


def _leave(code: int) -> None:
    """Ends without waiting for the threads of clients that a failed scenario left open."""
    import os

    os._exit(code)
