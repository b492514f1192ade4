"""The plays of the suite for Python clients, over the interface of tests/clients; a program plays its input, by lines.

A line is `play=commit bootstrap=127.0.0.1:9092 topic=t partitions=3 …`, its answer one line of JSON.
"""

import contextlib
import json
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator

from interface import READ_COMMITTED, READ_UNCOMMITTED, Client, Member, Reader, Record, check

__all__ = ["serve"]

PATIENCE_S = 60.0
POLL_S = 0.1
MEMBERS = 3
Arguments = dict[str, str]


def key(i: int) -> bytes:
    return str(i).encode()


def value(i: int, size: int) -> bytes:
    return f"{i}:".encode().ljust(size, b"x")


class Play:
    """One test: its client, its topic, and how many partitions and bytes it is about."""

    def __init__(self, client: Client, arguments: Arguments) -> None:
        self.client = client
        self.topic = arguments["topic"]
        self.group = f"{self.topic}-group"
        self.partitions, self.records, self.transactions, self.bytes = (
            int(arguments.get(name, 1)) for name in ("partitions", "records", "transactions", "bytes")
        )
        self.compression = arguments.get("compression", "none")

    def made(self, numbers: Iterable[int]) -> list[tuple[int, bytes, bytes]]:
        return [(i % self.partitions, key(i), value(i, self.bytes)) for i in numbers]

    def create(self) -> None:
        self.client.create_topic(self.topic, self.partitions, {})

    def produce(self, numbers: Iterable[int]) -> None:
        records = self.made(numbers)
        offsets = self.client.produce(self.topic, records, compression=self.compression, idempotent=False)
        check(len(offsets) == len(records), f"{len(offsets)} of {len(records)} records were written")

    def expect(self, found: Iterable[Record], numbers: Iterable[int]) -> None:
        """These records, in order within each partition, each unchanged."""
        by_partition: dict[int, list[tuple[bytes, bytes]]] = {}
        for record in found:
            by_partition.setdefault(record.partition, []).append((record.key, record.value))
        expected: dict[int, list[tuple[bytes, bytes]]] = {}
        for partition, name, text in self.made(numbers):
            expected.setdefault(partition, []).append((name, text))
        check(by_partition == expected, f"read {by_partition}, expected {expected}"[:500])

    def read(self, isolation: str, numbers: Iterable[int], topic: str | None = None) -> None:
        wanted = list(numbers)
        with contextlib.closing(self.client.reader(topic or self.topic, self.partitions, isolation)) as reader:
            self.expect(take(reader, len(wanted)), wanted)

    def committed(self, ends: int) -> None:
        """The offsets of the group are behind the last of so many records."""
        expected = {at: len(range(at, ends, self.partitions)) for at in range(self.partitions)}
        found = self.client.group_offsets(self.group, self.topic, self.partitions)
        told = {at: found.get(at, 0) for at in expected}  # some clients commit a position where they have read nothing
        check(told == expected, f"committed {found}, expected {expected}")


def take(reader: Reader, count: int) -> list[Record]:
    found: list[Record] = []
    end = time.monotonic() + PATIENCE_S
    while len(found) < count:
        check(time.monotonic() < end, f"read {len(found)} of {count} records")
        found += reader.poll(POLL_S)
    return found


def roundtrip(play: Play) -> None:
    play.create()
    missing(play)


def missing(play: Play) -> None:
    play.produce(range(play.records))
    play.read(READ_UNCOMMITTED, range(play.records))


def resume(play: Play) -> None:
    play.create()
    for numbers in (range(play.records), range(play.records, 2 * play.records)):
        play.produce(numbers)
        with contextlib.closing(play.client.member(play.topic, play.group)) as member:
            play.expect(take(member, play.records), numbers)
            member.commit()
    play.committed(2 * play.records)


def waiting(play: Play) -> None:
    play.create()
    with contextlib.closing(play.client.reader(play.topic, play.partitions, READ_UNCOMMITTED)) as reader:
        for i in range(play.records):
            check(reader.poll(0.02) == [], "a record came before it was written")
            play.produce([i])
            play.expect(take(reader, 1), [i])


def commit(play: Play) -> None:
    transact(play, aborts=False)


def abort(play: Play) -> None:
    transact(play, aborts=True)


def transact(play: Play, *, aborts: bool) -> None:
    play.create()
    producer = play.client.transactional(f"{play.topic}-id")
    committed: list[int] = []
    for n in range(play.transactions):
        numbers = range(n * play.records, (n + 1) * play.records)
        producer.begin()
        for record in play.made(numbers):
            producer.send(play.topic, *record)
        if aborts and (play.transactions - n) % 2 == 0:
            producer.flush()  # otherwise a client drops what it has not sent yet
            producer.abort()
        else:
            producer.commit()
            committed += numbers
    producer.close()
    play.read(READ_COMMITTED, committed)
    if aborts:
        play.read(READ_UNCOMMITTED, range(play.transactions * play.records))


def copy(play: Play) -> None:
    output, total = f"{play.topic}-out", play.transactions * play.records
    play.create()
    play.client.create_topic(output, play.partitions, {})
    play.produce(range(total))
    producer = play.client.transactional(f"{play.topic}-id")
    with contextlib.closing(play.client.member(play.topic, play.group, records_max=play.records)) as member:
        copied = 0
        while copied < total:
            records = take(member, 1)
            producer.begin()
            for record in records:
                producer.send(output, record.partition, record.key, record.value)
            ends = {record.partition: record.offset + 1 for record in records}
            producer.send_offsets(play.topic, ends, member)
            producer.commit()
            copied += len(records)
    producer.close()
    play.read(READ_COMMITTED, range(total), output)
    play.committed(total)


class Joined(threading.Thread):
    """A member that polls in a thread of its own until it leaves."""

    def __init__(self, play: Play) -> None:
        super().__init__(daemon=True)
        self.found: list[Record] = []
        self.assigned: set[int] = set()
        self.failure: Exception | None = None
        self._play = play
        self._leaving = threading.Event()
        self.start()

    def run(self) -> None:
        try:
            with contextlib.closing(self._play.client.member(self._play.topic, self._play.group)) as member:
                self._poll(member)
        except Exception as error:
            self.failure = error

    def _poll(self, member: Member) -> None:
        while not self._leaving.is_set():
            records = member.poll(POLL_S)
            self.found += records
            if records:
                member.commit()
            self.assigned = member.assigned()

    def leave(self) -> None:
        self._leaving.set()
        self.join(PATIENCE_S)
        check(not self.is_alive() and self.failure is None, f"a member did not leave: {self.failure}")


def until(what: str, members: list[Joined], holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        check(time.monotonic() < end, f"timed out waiting until {what}: {[member.assigned for member in members]}")
        check(all(member.failure is None for member in members), f"{[member.failure for member in members]}")
        time.sleep(0.002)


def rebalance(play: Play) -> None:
    play.create()
    members = [Joined(play) for _ in range(MEMBERS)]
    try:
        shared(play, members, range(play.records))
        members.pop().leave()
        for member in members:
            member.found.clear()
        shared(play, members, range(play.records, 2 * play.records))
    finally:
        for member in members:
            member.leave()
    play.committed(2 * play.records)


def shared(play: Play, members: list[Joined], numbers: range) -> None:
    """The members share the partitions, then each record is read once."""
    share = play.partitions // len(members)
    everything = set(range(play.partitions))

    def split() -> bool:
        sets = [member.assigned for member in members]
        return all(len(one) == share for one in sets) and set.union(*sets) == everything

    until("the partitions are shared", members, split)
    play.produce(numbers)
    until("all is read", members, lambda: sum(len(member.found) for member in members) >= len(numbers))
    play.expect([record for member in members for record in member.found], numbers)


def fence(play: Play) -> None:
    play.create()
    old = play.client.transactional(f"{play.topic}-id")
    old.begin()
    for record in play.made(range(play.records)):
        old.send(play.topic, *record)
    old.flush()
    owner = play.client.transactional(f"{play.topic}-id")
    try:
        old.commit()
    except Exception as refused:
        check("fenced" in repr(refused).lower() or "epoch" in repr(refused).lower(), f"refused with {refused!r}")
    else:
        check(False, "the commit of the first producer was not refused")
    numbers = range(play.records, 2 * play.records)
    owner.begin()
    for record in play.made(numbers):
        owner.send(play.topic, *record)
    owner.commit()
    owner.close()
    play.read(READ_COMMITTED, numbers)


def topics(play: Play) -> None:
    client, topic, more = play.client, play.topic, play.partitions + 2
    client.create_topic(topic, play.partitions, {"retention.ms": "3600000"})
    settle("the partitions", lambda: len(client.partitions(topic)) == play.partitions)  # leaders come later
    check(client.config(topic, "retention.ms") == "3600000", "retention.ms is another")
    client.alter_config(topic, "max.message.bytes", "65536")
    settle("max.message.bytes", lambda: client.config(topic, "max.message.bytes") == "65536")
    client.create_partitions(topic, more)
    settle("more partitions", lambda: len(client.partitions(topic)) == more)
    check(topic in client.topics(), "the topic is not listed")
    client.delete_topic(topic)
    settle("the end of the topic", lambda: topic not in client.topics())


def settle(what: str, holds: Callable[[], bool]) -> None:
    until(what, [], holds)


def records(play: Play) -> None:
    client, topic, each = play.client, play.topic, play.records
    play.create()
    play.produce(range(each * play.partitions))
    for at in range(play.partitions):
        found = client.start_offset(topic, at), client.end_offset(topic, at)
        check(found == (0, each), f"offsets {found} of partition {at}")
        client.delete_records(topic, at, 4)
        check(client.start_offset(topic, at) == 4, "the first offset is not 4")


def groups(play: Play) -> None:
    play.create()
    for at in range(play.partitions):
        play.client.commit_outside(play.group, play.topic, at, 7 + at)
    check(play.group in play.client.groups(), "the group is not listed")
    found = play.client.group_offsets(play.group, play.topic, play.partitions)
    check(found == {at: 7 + at for at in range(play.partitions)}, f"committed {found}")


PLAYS = [roundtrip, missing, resume, waiting, commit, abort, copy, rebalance, fence, topics, records, groups]


def serve(connect: Callable[[str], Client]) -> None:
    known = {play.__name__: play for play in PLAYS}
    for line in sys.stdin:
        arguments = dict(word.split("=", 1) for word in line.split())
        print(json.dumps(answer(known[arguments["play"]], connect, arguments)), flush=True)


def answer(play: Callable[[Play], None], connect: Callable[[str], Client], arguments: Arguments) -> dict[str, object]:
    began = time.perf_counter()
    error, lacking = None, False
    try:
        with connected(connect, arguments["bootstrap"]) as client:
            play(Play(client, arguments))
    except Exception as raised:
        traceback.print_exc()
        error, lacking = repr(raised), isinstance(raised, NotImplementedError)
    return {"seconds": time.perf_counter() - began, "error": error, "unsupported": lacking}


@contextlib.contextmanager
def connected(connect: Callable[[str], Client], bootstrap: str) -> Iterator[Client]:
    client = connect(bootstrap)
    try:
        yield client
    finally:
        close = getattr(client, "close", None)
        if close is not None:
            close()
