"""Quotas of clients: how they are put, removed and described, and what the first request beyond one is told.

The first record of a window is told exactly: the rate is then that over ten windows, whatever the clock says. What
comes later depends on the milliseconds that have passed; `tests/unit/limits` holds it to Kafka's own classes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from tests.security.wire import Raw

from odradek.records.record import Record, build_batch
from odradek.wire.messages.alter_client_quotas_request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.delete_topics_request import DeleteTopicsRequest
from odradek.wire.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from odradek.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

__all__ = ["QUOTAS", "THROTTLES"]

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
USER, CLIENT, IP = "user", "client-id", "ip"
PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"
REQUEST, MUTATIONS, CONNECTIONS = "request_percentage", "controller_mutation_rate", "connection_creation_rate"
KEYS = (PRODUCER, CONSUMER, REQUEST, MUTATIONS, CONNECTIONS)
Entity = Sequence[tuple[str, str | None]]


def entry(entity: Entity, *ops: tuple[str, float | None]) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops],
    )


def alter(raw: Raw, *entries: EntryData, validate_only: bool = False, version: int = 1) -> None:
    if raw.ask(AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only), version) is None:
        raw.reopen()
    time.sleep(0.2)  # until the broker that is asked next has heard of it


def describe(raw: Raw, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1) -> None:
    asked = [ComponentData(entity_type=kind, match_type=match, match=text) for kind, match, text in components]
    answer = raw.ask(DescribeClientQuotasRequest(components=asked, strict=strict), version)
    if answer is None:
        raw.reopen()


def clear(raw: Raw, *entities: Entity) -> None:
    """Take away all that the entities may have, untold."""
    told = list(raw.lines)
    for entity in entities:
        keys = (CONNECTIONS,) if entity[0][0] == IP else KEYS[:4]
        alter(raw, entry(entity, *((key, None) for key in keys)))
    raw.lines[:] = told


# ---------------------------------------------------------------------- put, removed, described

ALICE, ALL_USERS, APP, ALL_CLIENTS = (USER, "alice"), (USER, None), (CLIENT, "app"), (CLIENT, None)
ENTITIES: tuple[Entity, ...] = (
    (ALICE,),
    (ALL_USERS,),
    (APP,),
    (ALL_CLIENTS,),
    (ALICE, APP),
    (ALICE, ALL_CLIENTS),
    (ALL_USERS, APP),
    (ALL_USERS, ALL_CLIENTS),
)
ADDRESSES: tuple[Entity, ...] = (((IP, "10.0.0.7"),), ((IP, None),))


def each_kind_of_entity(raw: Raw) -> None:
    describe(raw)
    for number, entity in enumerate(ENTITIES):
        alter(raw, entry(entity, (PRODUCER, 1000.0 + number), (CONSUMER, 2000.0)), version=number % 2)
    for number, entity in enumerate(ADDRESSES):
        alter(raw, entry(entity, (CONNECTIONS, 10.0 + number)))
    describe(raw, version=0)
    describe(raw)
    clear(raw, *ENTITIES, *ADDRESSES)
    describe(raw)


def each_filter(raw: Raw) -> None:
    alter(raw, *(entry(entity, (PRODUCER, 1000.0)) for entity in ENTITIES))
    alter(raw, entry(((USER, "bob"),), (REQUEST, 50.0)), *(entry(each, (CONNECTIONS, 5.0)) for each in ADDRESSES))
    for strict in (False, True):
        describe(raw, strict=strict)
        for kind, name in ((USER, "alice"), (CLIENT, "app"), (IP, "10.0.0.7")):
            describe(raw, (kind, EXACT, name), strict=strict)
            describe(raw, (kind, EXACT, "nobody"), strict=strict)
            describe(raw, (kind, DEFAULT, None), strict=strict)
            describe(raw, (kind, SPECIFIED, None), strict=strict)
        describe(raw, (USER, EXACT, "alice"), (CLIENT, EXACT, "app"), strict=strict)
        describe(raw, (USER, EXACT, "alice"), (CLIENT, SPECIFIED, None), strict=strict)
        describe(raw, (USER, DEFAULT, None), (CLIENT, SPECIFIED, None), strict=strict)
        describe(raw, (USER, SPECIFIED, None), (CLIENT, DEFAULT, None), strict=strict)
    clear(raw, *ENTITIES, ((USER, "bob"),), *ADDRESSES)


def filters_that_are_none(raw: Raw) -> None:
    describe(raw, ("", EXACT, "x"))
    describe(raw, ("group", EXACT, "x"))
    describe(raw, (USER, EXACT, None))
    describe(raw, (USER, DEFAULT, "alice"))
    describe(raw, (USER, SPECIFIED, "alice"))
    describe(raw, (USER, 3, None))
    describe(raw, (USER, -1, None))
    describe(raw, (USER, EXACT, "alice"), (USER, DEFAULT, None))
    describe(raw, (USER, SPECIFIED, None), (USER, EXACT, "alice"))
    describe(raw, (IP, EXACT, "10.0.0.7"), (USER, EXACT, "alice"))
    describe(raw, (IP, SPECIFIED, None), (CLIENT, SPECIFIED, None))
    describe(raw, ("USER", EXACT, "alice"))


def entities_that_are_none(raw: Raw) -> None:
    limit = (PRODUCER, 1000.0)
    alter(raw, entry((), limit))
    alter(raw, entry((("", "x"),), limit))
    alter(raw, entry((("group", "x"),), limit))
    alter(raw, entry((("User", "x"),), limit))
    alter(raw, entry(((USER, ""),), limit))
    alter(raw, entry(((CLIENT, ""),), limit))
    alter(raw, entry(((IP, ""),), (CONNECTIONS, 1.0)))
    alter(raw, entry(((USER, "alice"), (USER, "bob")), limit))
    alter(raw, entry(((USER, "alice"), (USER, "alice")), limit))
    alter(raw, entry(((IP, "10.0.0.7"), (USER, "alice")), limit))
    alter(raw, entry(((IP, "10.0.0.7"), (CLIENT, "app")), (CONNECTIONS, 1.0)))
    alter(raw, entry(((IP, "10.0.0.7"), (CLIENT, "app"), (USER, "alice")), (CONNECTIONS, 1.0)))
    for name in ("unknown-host.invalid", "10.0.0.", "10.0.0.0/8", "1.2.3.4.5", "300.1.1.1", "::1", "not an address"):
        alter(raw, entry(((IP, name),), (CONNECTIONS, 1.0)))
        clear(raw, ((IP, name),))
    for name in ("with space", "a/b", "<default>", "ä", "x" * 300):
        alter(raw, entry(((USER, name),), limit))
        alter(raw, entry(((CLIENT, name),), limit))
    describe(raw)
    for name in ("with space", "a/b", "<default>", "ä", "x" * 300):
        clear(raw, ((USER, name),), ((CLIENT, name),))
    clear(raw, ((USER, "alice"),), ((USER, "bob"),))


def keys_and_values(raw: Raw) -> None:
    alter(raw, entry((ALICE,)))
    alter(raw, entry((ALICE,), ("", 1.0)))
    alter(raw, entry((ALICE,), ("leader.replication.throttled.rate", 1.0)))
    alter(raw, entry((ALICE,), ("SCRAM-SHA-256", 1.0)))
    for entity in ((ALICE,), (APP,), (ALICE, APP), ((IP, "10.0.0.7"),)):
        for key in KEYS:
            alter(raw, entry(entity, (key, 5.0)))
    for key in KEYS[:4]:
        for value in (0.5, 1.00001, 1.0000001, 0.0, -1.0, 1e18, 1e19, 2.0**63, float("inf"), float("-inf")):
            alter(raw, entry((ALICE,), (key, value)))
    for value in (0.5, 1.5, 0.0, -1.0, 2.0**31 - 1, 2.0**31, 2.0**31 + 0.5, 1e18):
        alter(raw, entry(((IP, "10.0.0.7"),), (CONNECTIONS, value)))
    alter(raw, entry((ALICE,), (PRODUCER, 7.0), (CONSUMER, -7.0)))
    alter(raw, entry((ALICE,), (PRODUCER, 8.0), (PRODUCER, 9.0)))
    alter(raw, entry((ALICE,), (PRODUCER, 8.0), (PRODUCER, None)))
    alter(raw, entry((ALICE,), ("no such key", None)))
    alter(raw, entry(((USER, "nobody"),), (PRODUCER, None)))
    describe(raw)
    clear(raw, (ALICE,), (APP,), (ALICE, APP), ((IP, "10.0.0.7"),))


def nan_is_a_number_too(raw: Raw) -> None:
    alter(raw, entry((ALICE,), (REQUEST, float("nan"))))
    alter(raw, entry((ALICE,), (PRODUCER, float("nan"))))
    clear(raw, (ALICE,))


def several_in_a_request(raw: Raw) -> None:
    alter(raw)
    alter(raw, entry((ALICE,), (PRODUCER, 1.0)), entry((ALICE,), (CONSUMER, 2.0)))
    alter(raw, entry((ALICE, APP), (PRODUCER, 1.0)), entry((APP, ALICE), (CONSUMER, 2.0)))
    describe(raw)
    clear(raw, (ALICE,), (ALICE, APP))
    alter(raw, entry((ALICE,), (PRODUCER, 1.0)), entry((APP,), ("wrong", 2.0)), entry((ALL_USERS,), (CONSUMER, 3.0)))
    describe(raw)
    clear(raw, (ALICE,), (APP,), (ALL_USERS,))


def only_validated(raw: Raw) -> None:
    alter(raw, entry((ALICE,), (PRODUCER, 1.0)), entry((APP,), ("wrong", 2.0)), validate_only=True)
    describe(raw)


QUOTAS: dict[str, Callable[[Raw], None]] = {
    play.__name__: play
    for play in (
        each_kind_of_entity,
        each_filter,
        filters_that_are_none,
        entities_that_are_none,
        keys_and_values,
        nan_is_a_number_too,
        several_in_a_request,
        only_validated,
    )
}
"""Every story of quotas as they are kept, by its name."""


# ---------------------------------------------------------------------- what they do


def muted_after(raw: Raw, told_ms: int, began: float) -> None:
    """Note whether the connection is served nothing until the time is over that began with the request before."""
    raw.ask(ApiVersionsRequest(client_software_name="c", client_software_version="1"), 3)
    raw.lines.pop()
    waited_ms = (time.monotonic() - began) * 1000
    raw.lines.append("muted" if waited_ms >= told_ms else "served at once")


def told(raw: Raw, answer: object) -> int:
    """Note the throttle time of an answer instead of the answer."""
    raw.lines.pop()
    throttle_ms: int = getattr(answer, "throttle_time_ms", -1)
    raw.lines.append(f"throttled {throttle_ms} ms")
    return throttle_ms


def new_topic(raw: Raw, name: str) -> bytes:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1)]
    answer = raw.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)
    raw.lines.pop()
    time.sleep(0.5)
    topic_id: bytes = answer.topics[0].topic_id
    return topic_id


def drop_topic(raw: Raw, name: str) -> None:
    raw.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000), 4)
    raw.lines.pop()


def produce(raw: Raw, topic: str, *, size: int, version: int = 9, acks: int = 1) -> object:
    batch = bytes(build_batch([Record(value=bytes(size))], base_timestamp=1_700_000_000_000))
    data = [PartitionProduceData(index=0, records=memoryview(batch))]
    request = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=data)])
    return raw.ask(request, version)


def fetch(raw: Raw, topic: str, *, version: int = 11, max_bytes: int = 1 << 20) -> object:
    partitions = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)]
    request = FetchRequest(
        max_wait_ms=100, min_bytes=1, max_bytes=max_bytes, topics=[FetchTopic(topic=topic, partitions=partitions)]
    )
    return raw.ask(request, version)


CLIENT_C = ((CLIENT, "c"),)
"""Who asks: the stories' connections call themselves so."""


def produce_beyond_the_rate(raw: Raw) -> None:
    new_topic(raw, "pq")
    for number, version in enumerate((3, 6, 9)):
        # A user of its own each time, so that nobody remembers what was before.
        alter(raw, entry(CLIENT_C, (PRODUCER, 100.0)))
        raw.lines.pop()
        raw.client_id = f"p{number}"
        alter(raw, entry(((CLIENT, f"p{number}"),), (PRODUCER, 100.0)))
        raw.lines.pop()
        told(raw, produce(raw, "pq", size=900 - 200, version=version))
        began = time.monotonic()
        throttle_ms = told(raw, produce(raw, "pq", size=300, version=version))
        raw.lines[-1] = "throttled" if throttle_ms > 0 else "not throttled"
        muted_after(raw, throttle_ms, began)
        clear(raw, ((CLIENT, f"p{number}"),))
        raw.client_id = "c"
    clear(raw, CLIENT_C)
    drop_topic(raw, "pq")


def one_produce_that_is_far_beyond(raw: Raw) -> None:
    new_topic(raw, "pq2")
    raw.client_id = "far"
    alter(raw, entry(((CLIENT, "far"),), (PRODUCER, 1000.0)))
    raw.lines.pop()
    began = time.monotonic()
    throttle_ms = told(raw, produce(raw, "pq2", size=11_000))
    muted_after(raw, throttle_ms, began)
    clear(raw, ((CLIENT, "far"),))
    drop_topic(raw, "pq2")


def each_precedence(raw: Raw) -> None:
    """Of each pair of entities, which one counts: the throttle time tells its rate."""
    new_topic(raw, "pq3")
    me = "ANONYMOUS"
    ladder: list[Entity] = [
        ((CLIENT, None),),
        ((CLIENT, "ladder"),),
        ((USER, None),),
        ((USER, None), (CLIENT, None)),
        ((USER, None), (CLIENT, "ladder")),
        ((USER, me),),
        ((USER, me), (CLIENT, None)),
        ((USER, me), (CLIENT, "ladder")),
    ]
    for number, entity in enumerate(ladder):
        alter(raw, entry(entity, (PRODUCER, 1000.0 - 100 * number)))
        raw.lines.pop()
        raw.client_id = "ladder"
        telling_rate(raw, "pq3")
        raw.client_id = ""
        telling_rate(raw, "pq3")
        raw.client_id = "c"
    clear(raw, *ladder)
    drop_topic(raw, "pq3")


def telling_rate(raw: Raw, topic: str) -> None:
    answer = produce(raw, topic, size=20_000)
    raw.lines.pop()
    raw.lines.append("throttled" if getattr(answer, "throttle_time_ms", 0) > 0 else "not throttled")
    raw.reopen()


def fetch_beyond_the_rate(raw: Raw) -> None:
    new_topic(raw, "fq")
    produce(raw, "fq", size=5000)
    raw.lines.pop()
    raw.client_id = "f1"
    alter(raw, entry(((CLIENT, "f1"),), (CONSUMER, 450.0)))
    raw.lines.pop()
    began = time.monotonic()
    answer = fetch(raw, "fq")
    throttle_ms = told(raw, answer)
    raw.lines.append(f"{len(getattr(answer, 'responses', ()))} topics")
    muted_after(raw, throttle_ms, began)
    clear(raw, ((CLIENT, "f1"),))
    raw.client_id = "c"
    drop_topic(raw, "fq")


def mutate(raw: Raw, request: object, version: int) -> None:
    answer = raw.ask(request, version)  # type: ignore[arg-type]
    throttle_ms = getattr(answer, "throttle_time_ms", 0)
    # It depends on milliseconds; seconds tell enough.
    raw.lines.append(f"throttled {-(-throttle_ms // 1000)} s")
    if throttle_ms:
        raw.reopen()


def creatable(name: str, partitions: int) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)


def mutations_beyond_the_rate(raw: Raw) -> None:
    raw.client_id = "m1"
    alter(raw, entry(((CLIENT, "m1"),), (MUTATIONS, 1.0)))
    raw.lines.pop()

    def create(*topics: CreatableTopic, version: int = 6, validate_only: bool = False) -> None:
        mutate(raw, CreateTopicsRequest(list(topics), timeout_ms=10_000, validate_only=validate_only), version)

    # Eleven are there at the start, and the first that goes beyond them is let through.
    create(creatable("m1", 5), creatable("m2", 10), creatable("m3", 1))
    create(creatable("m4", 1))
    create(creatable("m4", 1), validate_only=True)
    mutate(raw, DeleteTopicsRequest(topic_names=["m1"], timeout_ms=10_000), 5)
    added = [CreatePartitionsTopic(name="m2", count=12, assignments=None)]
    mutate(raw, CreatePartitionsRequest(topics=added, timeout_ms=10_000), 3)
    # Who does not know the refusal is served, and throttled.
    create(creatable("m5", 1), version=5)
    mutate(raw, DeleteTopicsRequest(topic_names=["m1"], timeout_ms=10_000), 4)
    added = [CreatePartitionsTopic(name="m2", count=12, assignments=None)]
    mutate(raw, CreatePartitionsRequest(topics=added, timeout_ms=10_000), 2)
    clear(raw, ((CLIENT, "m1"),))
    raw.client_id = "c"
    for name in ("m1", "m2", "m3", "m4", "m5"):
        drop_topic(raw, name)


def validated_mutations_count(raw: Raw) -> None:
    raw.client_id = "m9"
    alter(raw, entry(((CLIENT, "m9"),), (MUTATIONS, 1.0)))
    raw.lines.pop()
    for _ in range(2):
        request = CreateTopicsRequest([creatable("v1", 40)], timeout_ms=10_000, validate_only=True)
        mutate(raw, request, 6)
    mutate(raw, CreateTopicsRequest([creatable("v 1", 40)], timeout_ms=10_000), 6)
    clear(raw, ((CLIENT, "m9"),))
    raw.client_id = "c"


NEXT_TO_NOTHING = (1e-3, 1e-5, 1e-6, 1e-9, 1e-15, 1e-300, 5e-324)


def as_client(raw: Raw, client_id: str, key: str, value: float) -> None:
    """Go on over another connection, with a limit of one's own."""
    raw.reopen()
    raw.client_id = "c"
    alter(raw, entry(((CLIENT, client_id),), (key, value)))
    raw.client_id = client_id


def produce_with_next_to_no_rate(raw: Raw) -> None:
    new_topic(raw, "pn")
    for number, value in enumerate(NEXT_TO_NOTHING):
        as_client(raw, f"pn{number}", PRODUCER, value)
        told(raw, produce(raw, "pn", size=300))
    raw.reopen()
    raw.client_id = "c"
    clear(raw, *(((CLIENT, f"pn{number}"),) for number in range(len(NEXT_TO_NOTHING))))
    drop_topic(raw, "pn")


def fetch_with_next_to_no_rate(raw: Raw) -> None:
    new_topic(raw, "fn")
    produce(raw, "fn", size=300)
    raw.lines.pop()
    for number, value in enumerate(NEXT_TO_NOTHING):
        as_client(raw, f"fn{number}", CONSUMER, value)
        answer = fetch(raw, "fn")
        told(raw, answer)
        raw.lines.append(f"{len(getattr(answer, 'responses', ()))} topics")
    raw.reopen()
    raw.client_id = "c"
    clear(raw, *(((CLIENT, f"fn{number}"),) for number in range(len(NEXT_TO_NOTHING))))
    drop_topic(raw, "fn")


def mutations_with_next_to_no_rate(raw: Raw) -> None:
    for number, value in enumerate(NEXT_TO_NOTHING):
        as_client(raw, f"mn{number}", MUTATIONS, value)
        for version in (6, 6, 5):
            topics = [creatable(f"mn{number}", 1)]
            answer = raw.ask(CreateTopicsRequest(topics, timeout_ms=10_000, validate_only=True), version)
            # It depends on the milliseconds that have passed.
            raw.lines.append(f"throttled {round(getattr(answer, 'throttle_time_ms', 0) / 100_000)} times 100 s")
            raw.reopen()
    raw.client_id = "c"
    clear(raw, *(((CLIENT, f"mn{number}"),) for number in range(len(NEXT_TO_NOTHING))))


def requests_with_next_to_no_time(raw: Raw) -> None:
    for number, value in enumerate(NEXT_TO_NOTHING):
        as_client(raw, f"rn{number}", REQUEST, value)
        answer = produce(raw, "unknown", size=300)
        told(raw, answer)
    raw.reopen()
    raw.client_id = "c"
    clear(raw, *(((CLIENT, f"rn{number}"),) for number in range(len(NEXT_TO_NOTHING))))


THROTTLES: dict[str, Callable[[Raw], None]] = {
    play.__name__: play
    for play in (
        produce_beyond_the_rate,
        one_produce_that_is_far_beyond,
        each_precedence,
        fetch_beyond_the_rate,
        mutations_beyond_the_rate,
        validated_mutations_count,
        produce_with_next_to_no_rate,
        fetch_with_next_to_no_rate,
        mutations_with_next_to_no_rate,
        requests_with_next_to_no_time,
    )
}
"""Every story of quotas as they act, by its name."""
