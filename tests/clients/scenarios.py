"""The scenarios of the Python clients, played over the small interface that each family's program supplies.

A program is `PROGRAM --bootstrap HOST:PORT --scenario NAME --topic T ...` and prints one line of JSON; see README.md.
"""

import argparse
import dataclasses
import functools
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence

from interface import READ_UNCOMMITTED, Client, Failed, Options, Record, check, until
from records import produce, read, value

from transactions import transactions, txn_offsets, txn_timeout, zombie

__all__ = ["run"]


def produce_consume(client: Client, options: Options, counts: dict[str, object], *, idempotent: bool = False) -> None:
    client.create_topic(options.topic, options.partitions, {})
    produce(client, options, 0, options.records, idempotent=idempotent)
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


def consumer_protocol(client: Client, options: Options, counts: dict[str, object]) -> None:
    """The same with a group of KIP-848, which the broker assigns."""
    client.consumer_protocol = True
    group(client, options, counts)


SCENARIOS: dict[str, Callable[[Client, Options, dict[str, object]], None]] = {
    "produce-consume": produce_consume,
    "idempotent": functools.partial(produce_consume, idempotent=True),
    "group": group,
    "consumer-protocol": consumer_protocol,
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
    sys.stderr.flush()
    # without waiting for the threads of clients that a failed scenario left open
    os._exit(0 if error is None else 3 if unsupported else 1)
