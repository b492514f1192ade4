"""Nobody is starved: who has sent much gives way after each turn, and goes on when others have had theirs."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from tests.unit.host.helpers import batch, produce_request

from odradek.host import exchange as exchanges
from odradek.host.events import Clogged, Drained, Effect, Hold, NextTurn, Received, Resume, Send, Turn
from odradek.sim import SimClient, World
from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest
from odradek.wire.registry import encode

ASKED = 40


def frames(count: int, *, first: int = 0) -> bytes:
    """So many ApiVersions requests, numbered."""
    return b"".join(struct.pack(">ihhih", 10, 18, 0, number, -1) for number in range(first, first + count))


def numbers(client: SimClient) -> list[int]:
    """The answers that a client has received."""
    data, found, position = b"".join(client.unread), [], 0
    while position < len(data):
        length, number = struct.unpack_from(">ii", data, position)
        found.append(number)
        position += 4 + length
    return found


def kinds(effects: Sequence[Effect]) -> list[str]:
    return [type(effect).__name__ for effect in effects]


def connected() -> tuple[World, SimClient]:
    world = World(topics=["t"])
    client = world.client()
    world.run()
    return world, client


def test_one_request_of_a_chunk_is_served_in_a_turn() -> None:
    world, client = connected()
    node = world.nodes[1]
    assert ["Send", "NextTurn"] == kinds(node.step(Received(client.conn, frames(3)), world.now))
    assert ["Send", "NextTurn"] == kinds(node.step(Turn(), world.now))
    assert ["Send"] == kinds(node.step(Turn(), world.now))


def test_a_turn_that_lasts_serves_more() -> None:
    world, client = connected()
    node = world.nodes[1]
    node.turns.is_over = lambda: False
    assert ["Send"] == kinds(node.step(Received(client.conn, frames(3)), world.now))


def test_everything_is_answered_in_order() -> None:
    world, client = connected()
    client.send_bytes(frames(ASKED))
    client.send_bytes(frames(ASKED, first=ASKED))
    world.run()
    assert list(range(2 * ASKED)) == numbers(client)


def test_others_are_served_in_between() -> None:
    world, greedy = connected()
    modest = world.client()
    greedy.send_bytes(frames(ASKED))
    answer = modest.send(ApiVersionsRequest(), 0)
    for _ in range(4):
        world._deliver()
    assert answer.arrived
    assert len(numbers(greedy)) < 4


def test_those_who_wait_take_turns() -> None:
    world, first = connected()
    second = world.client()
    world.run()
    node = world.nodes[1]
    node.step(Received(first.conn, frames(ASKED)), world.now)
    node.step(Received(second.conn, frames(ASKED)), world.now)
    served = [effect.conn for _ in range(6) for effect in node.step(Turn(), world.now) if isinstance(effect, Send)]
    assert [first.conn, second.conn] * 3 == served


def test_the_driver_is_asked_once_until_it_comes() -> None:
    world, first = connected()
    second = world.client()
    world.run()
    node = world.nodes[1]
    assert "NextTurn" in kinds(node.step(Received(first.conn, frames(3)), world.now))
    assert "NextTurn" not in kinds(node.step(Received(second.conn, frames(3)), world.now))
    assert "NextTurn" in kinds(node.step(Turn(), world.now))


def test_a_turn_is_over_when_much_was_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "ANSWER_BYTES_MAX", 1)
    world, client = connected()
    node = world.nodes[1]
    node.turns.is_over = lambda: False
    for _ in range(2):
        assert ["Send", "NextTurn"] == kinds(node.step(Received(client.conn, frames(2)), world.now))[:2]
        node.step(Turn(), world.now)
        node.step(Turn(), world.now)


def test_who_does_not_read_waits_until_the_answers_have_gone_out() -> None:
    world, client = connected()
    node = world.nodes[1]
    node.step(Received(client.conn, frames(3)), world.now)
    node.step(Clogged(client.conn), world.now)
    assert [] == node.step(Turn(), world.now)
    assert ["Send", "NextTurn"] == kinds(node.step(Drained(client.conn), world.now))
    assert ["Resume", "Send"] == kinds(node.step(Turn(), world.now))


def test_who_catches_up_before_its_turn_is_served_once() -> None:
    world, client = connected()
    node = world.nodes[1]
    node.step(Received(client.conn, frames(3)), world.now)
    node.step(Clogged(client.conn), world.now)
    assert [] == node.step(Drained(client.conn), world.now)
    assert ["Send", "NextTurn"] == kinds(node.step(Turn(), world.now))
    assert "Send" in kinds(node.step(Turn(), world.now))
    assert [] == node.step(Turn(), world.now)


def test_who_has_gone_is_not_served() -> None:
    world, client = connected()
    node = world.nodes[1]
    node.step(Received(client.conn, frames(3)), world.now)
    node.connections[client.conn].close("test")
    assert [] == node.step(Turn(), world.now)


def test_nothing_more_is_read_while_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "WAITING_BYTES_MAX", 100)
    world, client = connected()
    node = world.nodes[1]
    effects = node.step(Received(client.conn, frames(20)), world.now)
    assert Hold(client.conn) in effects
    while NextTurn() in effects:
        effects = node.step(Turn(), world.now)
    assert Resume(client.conn) in effects


def test_a_request_that_is_still_arriving_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "WAITING_BYTES_MAX", 100)
    world, client = connected()
    large = struct.pack(">ihhih", 1_000, 18, 0, 7, -1) + bytes(990)
    node = world.nodes[1]
    assert [] == node.step(Received(client.conn, large[:500]), world.now)
    assert ["Send"] == kinds(node.step(Received(client.conn, large[500:]), world.now))


def unanswered(count: int) -> bytes:
    """So many requests to produce a record with acks=0, whose client waits for nothing."""
    body = encode(produce_request(batch(b"x"), acks=0), 3)
    return b"".join(struct.pack(">ihhih", 10 + len(body), 0, 3, number, -1) + body for number in range(count))


def end_offset(world: World) -> int:
    return world.nodes[1].partitions["t", 0].log.end_offset


def test_what_was_sent_before_the_client_went_away_is_not_lost() -> None:
    world, client = connected()
    client.send_bytes(unanswered(ASKED))
    client.close()
    world.run()
    assert end_offset(world) == ASKED


def test_of_who_went_away_nothing_is_served_after_the_first_answer() -> None:
    world, client = connected()
    client.send_bytes(unanswered(2) + frames(1) + unanswered(ASKED))
    client.close()
    world.run()
    assert end_offset(world) == 2


def everywhere(count: int, *, acks: int) -> ProduceRequest:
    """A batch for each of so many partitions."""
    request = produce_request(batch(b"x"), acks=acks)
    data = request.topic_data[0].partition_data[0]
    request.topic_data[0].partition_data = [PartitionProduceData(index, data.records) for index in range(count)]
    return request


def test_others_are_served_between_two_batches_of_a_request() -> None:
    world = World(topics=["t:10"])
    node, greedy, modest = world.nodes[1], world.client(), world.client()
    world.run()
    written = greedy.send(everywhere(10, acks=1), 9)
    served = 0
    while not written.arrived:
        between = modest.send(ApiVersionsRequest(), 0)
        while not between.arrived and not written.arrived:
            world._deliver()
        served += between.arrived
    assert served >= 3
    assert [1] * 10 == [node.partitions["t", index].log.end_offset for index in range(10)]


def test_a_request_between_two_of_its_batches_outlives_its_client() -> None:
    world = World(topics=["t:10"])
    client = world.client()
    world.run()
    client.send(everywhere(10, acks=0), 9)
    client.close()
    world.run()
    assert [1] * 10 == [world.nodes[1].partitions["t", index].log.end_offset for index in range(10)]


class Long:
    """A request that may turn out to be long."""

    is_long = False


def chunks(over: Sequence[bool], *, entries: int) -> list[int]:
    """How many entries are taken at a time, where a turn is over or not after each part."""
    world, _ = connected()
    turns, said, call, sizes = world.nodes[1].turns, iter(over), Long(), []
    turns.is_over = lambda: next(said)

    async def take() -> None:
        async for some in turns.share(call, list(range(entries))):
            sizes.append(len(some))

    taking = take()
    while (wait := next(taking.__await__(), None)) is not None:
        wait.settle(None)
    return sizes


def test_more_entries_are_taken_at_a_time_while_the_turn_lasts() -> None:
    assert [1, 2, 4, 8, 16, 32, 32, 5] == chunks([False] * 8, entries=100)


def test_fewer_entries_are_taken_where_they_alone_last_a_turn() -> None:
    assert [1, 2, 4, 4, 2, 1, 1, 1] == chunks([False, False, True, True, True, True, True, True], entries=16)
