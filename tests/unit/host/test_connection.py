"""One connection: requests one at a time, answers in order, hostile bytes, idle clients, slow readers."""

import struct

import pytest
from tests.unit.host.helpers import batch, fetch_request, produce_request

from odradek.faults.one_line import rule
from odradek.host.connection import Connection
from odradek.host.events import Clogged, Drained
from odradek.sim import SimClient, World
from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.messages.metadata_request import MetadataRequest


def reasons(world: World) -> list[str]:
    """Why connections were closed, according to the log."""
    return [fields["reason"] for _, event, fields in world.log.lines if event == "connection_closed"]


def test_as_in_kafka_a_request_that_waits_holds_back_the_ones_behind_it() -> None:
    world = World(topics=["t"], config={"odradek.fetch.yields": False})
    client = world.client()
    waiting = client.send(fetch_request((0, 0), max_wait_ms=500), 11)
    behind = client.send(MetadataRequest(topics=None), 1)
    world.run()
    assert not behind.arrived
    world.advance(500)
    assert waiting.arrived
    assert behind.arrived


def test_a_fetch_that_waits_is_answered_when_a_request_comes_behind_it() -> None:
    world = World(topics=["t"])
    client = world.client()
    waiting = client.send(fetch_request((0, 0), max_wait_ms=500), 11)
    world.run()
    assert not waiting.arrived
    behind = client.send(MetadataRequest(topics=None), 1)
    world.run()
    assert waiting.arrived
    assert behind.arrived
    assert 0 == len(world.nodes[1].purgatory)


def test_a_fetch_does_not_begin_to_wait_when_a_request_has_come_behind_it_before() -> None:
    world = World(topics=["t"])
    client = world.client()
    held = world.arm(rule("METADATA", hold=True))
    first = client.send(MetadataRequest(topics=None), 1)
    waiting = client.send(fetch_request((0, 0), max_wait_ms=500), 11)
    behind = client.send(MetadataRequest(topics=None), 1)
    world.run()
    assert not first.arrived
    world.disarm(held)
    world.run()
    assert waiting.arrived
    assert behind.arrived


@pytest.mark.parametrize("version", [11, 12])
def test_a_fetch_that_waits_is_answered_when_the_client_ends_its_session_behind_it(version: int) -> None:
    world = World(topics=["t"])
    client = world.client()
    session = client.ask(fetch_request((0, 0), session_epoch=0), version).session_id
    assert session
    waiting = client.send(fetch_request(max_wait_ms=500, session_id=session, session_epoch=1), version)
    world.run()
    assert not waiting.arrived
    end = client.send(fetch_request(max_wait_ms=500, session_id=session, session_epoch=-1), version)
    world.run()
    assert waiting.arrived
    assert end.arrived


@pytest.mark.parametrize("version", [11, 12])
@pytest.mark.parametrize("session_epoch", [-1, 0])
def test_a_fetch_goes_on_waiting_when_another_one_that_waits_is_behind_it(version: int, session_epoch: int) -> None:
    world = World(topics=["t"])
    client = world.client()
    waiting = client.send(fetch_request((0, 0), max_wait_ms=500), version)
    client.send(fetch_request((0, 0), max_wait_ms=500, session_epoch=session_epoch), version)
    world.run()
    assert not waiting.arrived


def test_a_request_behind_a_fetch_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many bytes come behind it, one by one: each look decodes a Fetch."""
    looks: list[memoryview] = []
    look = Connection._waits_not

    def counted(connection: Connection, frame: memoryview) -> bool:
        looks.append(frame)
        return look(connection, frame)

    monkeypatch.setattr(Connection, "_waits_not", counted)
    world = World(topics=["t"])
    client = world.client()
    client.send(fetch_request((0, 0), max_wait_ms=500), 11)
    client.send(fetch_request((0, 0), max_wait_ms=500), 11)
    world.run()
    for byte in struct.pack(">i", 100):
        client.send_bytes(bytes([byte]))
        world.run()
    assert len(looks) == 1


def test_a_fetch_that_a_rule_delays_is_delayed_whatever_comes_behind_it() -> None:
    world = World(topics=["t"])
    world.arm(rule("FETCH", delay_ms=300))
    client = world.client()
    waiting = client.send(fetch_request((0, 0), max_wait_ms=500), 11)
    world.run()
    behind = client.send(MetadataRequest(topics=None), 1)
    world.advance(299)
    assert not waiting.arrived
    world.advance(1)
    assert waiting.arrived
    assert behind.arrived


def test_what_is_no_request_ends_the_connection_behind_a_fetch_that_waits() -> None:
    world = World(topics=["t"])
    client = world.client()
    waiting = client.send(fetch_request((0, 0), max_wait_ms=500), 11)
    client.send_bytes(struct.pack(">ih", 2, 3))
    world.run()
    assert waiting.arrived
    assert ["malformed_header"] == reasons(world)


def test_answers_of_pipelined_requests_come_in_order() -> None:
    world = World(topics=["t"])
    client = world.client()
    answers = [client.send(produce_request(batch(b"%d" % number)), 9) for number in range(40)]
    world.run()
    offsets = [answer.response.responses[0].partition_responses[0].base_offset for answer in answers]
    assert list(range(40)) == offsets


def test_two_connections_do_not_wait_for_one_another() -> None:
    world = World(topics=["t"])
    world.client().send(fetch_request((0, 0), max_wait_ms=500), 11)
    assert world.client().ask(MetadataRequest(topics=None), 1).brokers


@pytest.mark.parametrize("api_key", [999, -1, 4, 7])
def test_an_unknown_api_closes_the_connection(api_key: int) -> None:
    world = World()
    client = world.client()
    client.send_bytes(frame(struct.pack(">hhih", api_key, 0, 1, -1)))
    world.run()
    assert client.closed
    assert ["unsupported_api"] == reasons(world)


def test_an_unknown_version_closes_the_connection() -> None:
    world = World()
    client = world.client()
    client.send_bytes(frame(struct.pack(">hhih", 3, 99, 1, -1)))
    world.run()
    assert client.closed


def test_an_unknown_version_of_api_versions_is_answered_in_version_0() -> None:
    world = World()
    client = world.client()
    client.send_bytes(frame(struct.pack(">hhih", 18, 99, 5, -1)))
    world.run()
    answer = b"".join(client.unread)
    assert (5, 35, 1, 18, 0, 5) == struct.unpack_from(">ihihhh", answer, 4)


@pytest.mark.parametrize("length", [2**31 - 1, -1, -(2**31)])
def test_a_senseless_length_closes_the_connection_at_once(length: int) -> None:
    world = World()
    client = world.client()
    client.send_bytes(struct.pack(">i", length))
    world.run()
    assert client.closed
    assert ["malformed_frame"] == reasons(world)


@pytest.mark.parametrize("body", [b"", b"\x00", b"\x00\x12\x00\x03", struct.pack(">hhih", 18, 3, 1, 50) + b"short"])
def test_a_header_that_ends_too_early_closes_the_connection(body: bytes) -> None:
    world = World()
    client = world.client()
    client.send_bytes(frame(body))
    world.run()
    assert client.closed


def test_a_malformed_request_closes_only_its_own_connection() -> None:
    world = World(topics=["t"])
    hostile, other = world.client(), world.client()
    hostile.send_bytes(frame(struct.pack(">hhih", 0, 9, 1, -1) + b"\x00" + b"\xff" * 20))
    world.run()
    assert hostile.closed
    assert ["malformed_request"] == reasons(world)
    assert other.ask(ApiVersionsRequest(), 0).api_keys


def test_inter_broker_requests_are_not_for_clients() -> None:
    world = World()
    client = world.client()
    client.send_bytes(frame(struct.pack(">hhih", 67, 0, 1, -1) + b"\x00" + bytes(12) + b"\x00"))
    world.run()
    assert client.closed
    assert ["unsupported_api"] == reasons(world)


def test_an_idle_client_is_closed_and_a_waiting_one_is_not() -> None:
    world = World(topics=["t"], config={"connections.max.idle.ms": 10_000})
    idle, waiting = world.client(), world.client()
    idle.ask(ApiVersionsRequest(), 0)
    waiting.send(fetch_request((0, 0), max_wait_ms=60_000), 11)
    world.advance(12_000)
    assert idle.closed
    assert not waiting.closed


def test_nothing_is_served_to_a_client_that_does_not_read() -> None:
    world = World(topics=["t"])
    client = world.client()
    world.post(1, Clogged(client.conn))
    answers = [client.send(ApiVersionsRequest(), 0) for _ in range(3)]
    world.run()
    assert [False] * 3 == [answer.arrived for answer in answers]
    world.post(1, Drained(client.conn))
    world.run()
    assert [True] * 3 == [answer.arrived for answer in answers]


def test_a_frame_may_come_byte_by_byte() -> None:
    world = World()
    client: SimClient = world.client()
    for byte in frame(struct.pack(">hhih", 18, 0, 77, -1)):
        client.send_bytes(bytes([byte]))
    world.run()
    assert 77 == struct.unpack_from(">i", b"".join(client.unread), 4)[0]


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body
