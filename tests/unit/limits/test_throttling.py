"""Clients that use more than they may: what they are told, and how long nobody hears them, by a clock that is moved."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from tests.unit.host.helpers import batch, fetch_request, only, only_fetched, produce_request
from tests.unit.limits.helpers import limit

from odradek.faults.model import Act, Match, Rule
from odradek.host.events import Clogged, Drained
from odradek.limits.usage import Throttles
from odradek.sim import World
from odradek.sim.world.client import SimClient
from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.delete_topics_request import DeleteTopicsRequest
from odradek.wire.messages.metadata_request import MetadataRequest
from odradek.wire.registry import ApiKey

CLIENT = ("client-id", "client")
THROTTLING_QUOTA_EXCEEDED = 89


def sent(client: SimClient, size: int, *, version: int = 9, acks: int = 1) -> int:
    """Produce a request of so many bytes; the throttle time."""
    empty = len(client._frame(ApiKey.PRODUCE, version, produce_request(batch(b""), acks=acks))) - 4
    value = bytes(size - empty)
    # A longer value has longer lengths before it.
    while len(client._frame(ApiKey.PRODUCE, version, produce_request(batch(value), acks=acks))) - 4 > size:
        value = value[:-1]
    answer = client.ask(produce_request(batch(value), acks=acks), version)
    assert 0 == only(answer).error_code
    throttle_ms: int = answer.throttle_time_ms
    return throttle_ms


def heard_after(world: World, client: SimClient) -> int:
    """How long the next request takes."""
    began = world.now
    client.ask(ApiVersionsRequest(), 0)
    return world.now - began


# ---------------------------------------------------------------------- produce


def test_windows_of_a_producer() -> None:
    """A thousand bytes a second over eleven windows of a second, as of KIP-219: each number is the arithmetic's."""
    world = World(topics=["t"])
    limit(world, CLIENT, producer_byte_rate=1000)
    client = world.client()
    # Ten seconds count as past at the start, so that ten thousand bytes are free.
    assert 0 == sent(client, 10_000)
    assert 0 == heard_after(world, client)
    # One more request: 11,500 in 10 s is 1,150 a second, 15 percent above it: 1.5 s.
    assert 1500 == sent(client, 1500)
    assert 1500 == heard_after(world, client)
    world.advance(9_000)
    # 10.5 s after the first all of it is still in the windows, which are as long as what has passed: 12,500 in 10.5 s.
    assert 2000 == sent(client, 1000)
    world.advance(20_000)
    # Nothing of it is left.
    assert 0 == sent(client, 10_000)


@pytest.mark.parametrize("version", [0, 3, 5, 6, 9])
def test_it_is_answered_at_once_and_then_not_heard(version: int) -> None:
    """Whatever the version: KIP-219 does not hold back answers, also of those who would not wait by themselves."""
    world = World(topics=["t"])
    limit(world, CLIENT, producer_byte_rate=1000)
    client = world.client()
    began = world.now
    records = batch(bytes(12_000)) if version >= 3 else None
    if records is None:
        from odradek.records.legacy import down_convert

        records = bytes(down_convert(memoryview(batch(bytes(12_000))), magic=0, first_offset=0))
    client.ask(produce_request(records), version)
    assert began == world.now
    next_one = client.send(ApiVersionsRequest(), 0)
    world.advance(2000)
    assert not next_one.arrived
    world.advance(1000)
    assert next_one.arrived


def test_without_an_answer_it_is_not_heard_either() -> None:
    world = World(topics=["t"])
    limit(world, CLIENT, producer_byte_rate=1000)
    client = world.client()
    client.send(produce_request(batch(bytes(12_000)), acks=0), 9)
    answer = client.send(ApiVersionsRequest(), 0)
    world.advance(2000)
    assert not answer.arrived
    world.advance(1000)
    assert answer.arrived
    assert 1 == world.nodes[1].partitions["t", 0].log.end_offset


def test_what_a_muted_client_has_sent_is_served_after_it_has_gone() -> None:
    world = World(topics=["t"])
    limit(world, CLIENT, producer_byte_rate=1000)
    client = world.client()
    for _ in range(2):
        client.send(produce_request(batch(bytes(12_000)), acks=0), 9)
    client.close()
    world.run()
    log = world.nodes[1].partitions["t", 0].log
    assert 1 == log.end_offset
    world.advance(60_000)
    assert 2 == log.end_offset


def test_who_reads_again_is_not_heard_before_the_time_is_over() -> None:
    world = World(topics=["t"])
    limit(world, CLIENT, producer_byte_rate=1000)
    client = world.client()
    assert 2000 == sent(client, 12_000)
    world.post(1, Clogged(client.conn))
    answer = client.send(ApiVersionsRequest(), 0)
    world.post(1, Drained(client.conn))
    world.advance(1999)
    assert not answer.arrived
    world.advance(1)
    assert answer.arrived


def test_others_are_heard_meanwhile() -> None:
    world = World(topics=["t"])
    limit(world, CLIENT, producer_byte_rate=1000)
    client, same, other = world.client(), world.client(), world.client(client_id="other")
    assert sent(client, 12_000)
    assert 0 == heard_after(world, other)
    assert 0 == sent(other, 20_000)
    # Another connection of the client is heard, and throttled by what it sends itself.
    assert 0 == heard_after(world, same)
    assert 3000 == sent(same, 1000)


def test_a_limit_that_changes_counts_with_what_was_used_before() -> None:
    world = World(topics=["t"])
    limit(world, CLIENT, producer_byte_rate=1000)
    client = world.client()
    assert 0 == sent(client, 9000)
    limit(world, CLIENT, producer_byte_rate=500)
    assert 10_000 == sent(client, 1000)
    limit(world, CLIENT, producer_byte_rate=None)
    world.advance(10_000)
    assert 0 == sent(client, 50_000)


def test_windows_can_be_chosen() -> None:
    world = World(topics=["t"], config={"quota.window.num": 2, "quota.window.size.seconds": 5})
    limit(world, CLIENT, producer_byte_rate=1000)
    assert 1000 == sent(world.client(), 6000)


def test_nobody_is_measured_without_limits() -> None:
    world = World(topics=["t"])
    assert 0 == sent(world.client(), 100_000)
    assert world.nodes[1].quotas is None


# ---------------------------------------------------------------------- fetch


def test_a_fetch_beyond_the_rate_is_answered_empty() -> None:
    world = World(topics=["t"])
    client = world.client()
    client.ask(produce_request(batch(bytes(5000))), 9)
    limit(world, CLIENT, consumer_byte_rate=480)
    answer = client.ask(fetch_request((0, 0)), 11)
    assert [] == answer.responses
    throttle_ms = answer.throttle_time_ms
    assert 702 == throttle_ms
    assert throttle_ms == heard_after(world, client)
    # What was not sent does not count: the window that has begun makes the rate lower each time.
    for _ in range(20):
        answer = client.ask(fetch_request((0, 0)), 11)
        if answer.responses:
            break
        world.advance(100)
    assert only_fetched(answer).records


def test_no_more_is_read_than_fits_into_the_windows() -> None:
    world = World(topics=["t"])
    client = world.client()
    for _ in range(4):
        client.ask(produce_request(batch(bytes(4000))), 9)
    limit(world, CLIENT, consumer_byte_rate=1000)
    request = fetch_request((0, 0), min_bytes=1 << 20, max_wait_ms=500)
    answer = client.ask(request, 11)
    # The records fill the windows, so that what is around them is too much.
    assert ([], 67) == (answer.responses, answer.throttle_time_ms)
    for _ in range(20):
        answer = client.ask(request, 11)
        if answer.responses:
            break
        world.advance(100)
    assert 10_000 == len(only_fetched(answer).records or b"")


def test_a_session_does_not_hear_of_what_was_throttled() -> None:
    world = World(topics=["t"])
    client = world.client()
    opened = client.ask(fetch_request((0, 0), session_epoch=0), 11)
    assert opened.session_id
    world.client(client_id="other").ask(produce_request(batch(bytes(5000))), 9)
    limit(world, CLIENT, consumer_byte_rate=450)
    throttled = client.ask(fetch_request(session_id=opened.session_id, session_epoch=1), 11)
    assert (opened.session_id, []) == (throttled.session_id, throttled.responses)
    assert throttled.throttle_time_ms
    limit(world, CLIENT, consumer_byte_rate=None)
    assert only_fetched(client.ask(fetch_request(session_id=opened.session_id, session_epoch=2), 11)).records


def test_a_session_that_would_begin_does_not() -> None:
    world = World(topics=["t"])
    client = world.client()
    client.ask(produce_request(batch(bytes(5000))), 9)
    limit(world, CLIENT, consumer_byte_rate=450)
    answer = client.ask(fetch_request((0, 0), session_epoch=0), 11)
    assert answer.throttle_time_ms
    assert 0 == answer.session_id == len(world.nodes[1].fetch_sessions)


# ---------------------------------------------------------------------- the time of requests


def test_time_of_requests_is_counted_by_the_clock_that_was_handed_in() -> None:
    world = World(topics=["t"])
    limit(world, CLIENT, request_percentage=10)
    spent = iter(range(0, 10**18, 150_000_000))
    world.nodes[1].thread_clock = lambda: next(spent)
    client = world.client()
    throttles = [client.ask(MetadataRequest(topics=[]), 9).throttle_time_ms for _ in range(8)]
    # Between any two looks at the clock lie 150 ms: each request takes that, and the writing of its answer, too.
    assert [0, 0, 0] == throttles[:3]
    assert throttles[-1] > 0
    assert max(throttles) <= 1000, "a window is the most"


def test_waiting_is_no_use() -> None:
    world = World(topics=["t"])
    limit(world, CLIENT, request_percentage=0.001)
    node = world.nodes[1]
    node.thread_clock = lambda: world.now * 1_000_000  # as if every moment were work
    client = world.client()
    answer = client.ask(fetch_request((0, 0), max_wait_ms=30_000), 11)
    assert 0 == answer.throttle_time_ms


def test_a_produce_without_an_answer_is_not_throttled_for_its_time() -> None:
    world = World(topics=["t"])
    limit(world, CLIENT, request_percentage=0.001)
    spent = iter(range(0, 10**18, 150_000_000))
    world.nodes[1].thread_clock = lambda: next(spent)
    client = world.client()
    client.send(produce_request(batch(b"x"), acks=0), 9)
    world.run()
    assert not world.nodes[1].connections[client.conn]._muted


# ---------------------------------------------------------------------- changes of topics


NUMBERS = count(1)


def creates(*counts: int) -> CreateTopicsRequest:
    topics = [
        CreatableTopic(name=f"new-{next(NUMBERS)}", num_partitions=partitions, replication_factor=1)
        for partitions in counts
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=1000)


def errors(answer: Any) -> list[int]:
    return [topic.error_code for topic in answer.topics]


@pytest.mark.parametrize("asked", [1, 2], ids=["the controller", "another broker"])
def test_changes_of_topics_by_the_piece(asked: int) -> None:
    """A partition a second, eleven saved up at most (KIP-599)."""
    world = World(brokers=2)
    limit(world, CLIENT, controller_mutation_rate=1)
    client = world.client(asked)
    answer = client.ask(creates(5, 10, 1), 6)
    assert [0, 0, THROTTLING_QUOTA_EXCEEDED] == errors(answer)
    assert 4000 == answer.throttle_time_ms
    assert 4000 == heard_after(world, client)
    # Four seconds later nothing is owed, and that is enough for any number.
    assert [0] == errors(client.ask(creates(7), 6))
    again = client.ask(creates(1), 6)
    assert [THROTTLING_QUOTA_EXCEEDED] == errors(again)
    assert 7000 == again.throttle_time_ms
    # Whoever is somebody else has tokens of their own, unless they are not limited at all.
    assert [0, 0] == errors(world.client(asked, client_id="other").ask(creates(40, 40), 6))


@pytest.mark.parametrize("asked", [1, 2], ids=["the controller", "another broker"])
def test_older_clients_are_served_and_throttled(asked: int) -> None:
    world = World(brokers=2)
    limit(world, CLIENT, controller_mutation_rate=1)
    client = world.client(asked)
    answer = client.ask(creates(5, 10, 1), 5)
    assert [0, 0, 0] == errors(answer)
    assert 5000 == answer.throttle_time_ms
    assert 5000 == heard_after(world, client)


def test_deletions_and_new_partitions_count_too() -> None:
    world = World(topics=["t:5", "u"])
    limit(world, CLIENT, controller_mutation_rate=1)
    client = world.client()
    grown = client.ask(CreatePartitionsRequest([CreatePartitionsTopic("u", 13, None)], 1000), 3)
    assert [0] == [each.error_code for each in grown.results]
    again = client.ask(CreatePartitionsRequest([CreatePartitionsTopic("u", 14, None)], 1000), 3)
    assert [THROTTLING_QUOTA_EXCEEDED] == [each.error_code for each in again.results]
    assert 1000 == again.throttle_time_ms
    deleted = client.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
    assert [0] == [each.error_code for each in deleted.responses]
    refused = client.ask(DeleteTopicsRequest(topic_names=["u"], timeout_ms=1000), 5)
    assert [THROTTLING_QUOTA_EXCEEDED] == [each.error_code for each in refused.responses]
    assert 5000 == refused.throttle_time_ms
    assert "u" in world.nodes[1].image.topics


# ---------------------------------------------------------------------- connections


def test_connections_of_an_address() -> None:
    world = World()
    limit(world, ("ip", None), connection_creation_rate=1)
    admin = world.client(client_id="admin")
    made = [world.client() for _ in range(9)]
    world.run()
    late = [world.client() for _ in range(3)]
    answers = [client.send(ApiVersionsRequest(), 0) for client in (*made, *late)]
    world.run()
    # Ten are free, and the administrator's is one of them.
    assert [True] * 9 == [answer.arrived for answer in answers[:9]]
    assert not any(answer.arrived for answer in answers[9:])
    assert not any(client.closed for client in late)
    world.advance(1000)
    assert all(client.closed for client in late)
    assert not any(client.closed for client in made)
    assert 0 == heard_after(world, admin)
    world.advance(12_000)
    again = world.client()
    again.ask(ApiVersionsRequest(), 0)


def test_who_is_turned_away_does_not_count() -> None:
    world = World()
    limit(world, ("ip", None), connection_creation_rate=1)
    made = [world.client() for _ in range(10)]
    world.advance(5000)
    late = [world.client() for _ in range(30)]
    world.advance(6000)
    assert all(client.closed for client in late)
    assert not any(client.closed for client in made)
    # The ten are eleven seconds old, and forgotten; of the thirty nobody knows.
    world.client().ask(ApiVersionsRequest(), 0)


# ---------------------------------------------------------------------- rules


def test_a_rule_that_throttles_mutes_as_a_broker_does() -> None:
    world = World(topics=["t"])
    world.arm(Rule(match=Match(api="METADATA"), act=Act(throttle_ms=3000)))
    client = world.client()
    began = world.now
    assert 3000 == client.ask(MetadataRequest(topics=[]), 9).throttle_time_ms
    assert began == world.now
    assert 3000 == heard_after(world, client)
    assert 0 == heard_after(world, client)


def test_a_muted_client_that_hangs_up_is_gone() -> None:
    world = World(topics=["t"])
    world.arm(Rule(match=Match(api="METADATA"), act=Act(throttle_ms=3000)))
    client = world.client()
    client.ask(MetadataRequest(topics=[]), 9)
    client.close()
    world.run()
    assert client.conn not in world.nodes[1].connections
    world.advance(5000)
    assert not world.log.lines


# ---------------------------------------------------------------------- what is told of it


def test_who_had_to_wait_is_counted_by_who_has_the_limit() -> None:
    world = World(topics=["t"])
    limit(world, CLIENT, producer_byte_rate=1000)
    client = world.client()
    metrics = world.nodes[1].metrics
    assert 0 == sent(client, 10_000)
    assert [] == metrics.throttles()
    assert 1500 == sent(client, 1500)
    assert [("producer_byte_rate", "", "client", 1, 1500)] == metrics.throttles()
    assert 0 == heard_after(world, world.client(client_id="another"))
    second_ms = sent(client, 1500)
    assert [("producer_byte_rate", "", "client", 2, 1500 + second_ms)] == metrics.throttles()
    assert (2, 1500 + second_ms) == tuple(
        metrics.snapshot()[name] for name in ("throttles_total", "throttle_time_ms_total")
    )


def test_a_request_with_several_refused_topics_is_counted_once() -> None:
    world = World()
    limit(world, ("user", None), controller_mutation_rate=1)
    client = world.client()
    first = [CreatableTopic(name="u", num_partitions=20, replication_factor=1)]
    client.ask(CreateTopicsRequest(topics=first, timeout_ms=1000), 7)
    more = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("v", "w")]
    answer = client.ask(CreateTopicsRequest(topics=more, timeout_ms=1000), 6)
    assert [THROTTLING_QUOTA_EXCEEDED] * 2 == [topic.error_code for topic in answer.topics]
    [*_, (quota, user, _, count, total_ms)] = world.nodes[1].metrics.throttles()
    assert ("controller_mutation_rate", "ANONYMOUS", 1) == (quota, user, count)
    assert answer.throttle_time_ms == total_ms


def test_the_thousand_and_first_is_counted_with_others() -> None:
    throttles = Throttles()
    for number in range(1002):
        throttles.note(("", str(number)), 10)
    assert 1001 == len(throttles.by_sharers)
    assert (2, 20) == throttles.by_sharers["", ""]
