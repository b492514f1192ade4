"""Rules on the wire before a broker that knows nothing of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from anyio.from_thread import start_blocking_portal
from tests.oracle.client import Client, ConnectionClosed
from tests.oracle.real_kafka import free_port
from tests.oracle.requests import build_request
from tests.stories.between import Between, Unplayable, check_playable

from odradek.faults.model import Act, Expect, Match, Rule, Step
from odradek.testing import Cluster
from odradek.wire.registry import ApiKey

LOST = Rule(name="lost", match=Match(api="METADATA"), act=Act(disconnect="after"), expect=Expect(hits=1))
OTHER = Rule(name="other", match=Match(api="PRODUCE", topic="t"), expect=Expect(hits=1))
OF_BROKERS = Rule(name="brokers", match=Match(api="METADATA", sender="broker"), act=Act(drop=True))


@contextmanager
def between(*rules: Rule, of_brokers: bool = False) -> Iterator[tuple[Between, Client]]:
    """Odradek behind these rules, and a client that speaks with it through them."""
    with Cluster(topics=["t"]) as cluster, start_blocking_portal() as portal:
        upstream, port = int(cluster.bootstrap.split(":")[1]), free_port()
        stands = Between(list(rules), lambda step, request: None)
        portal.call(partial(stands.listen, port, upstream, of_brokers=of_brokers))
        client = Client(("127.0.0.1", port))
        try:
            yield stands, client
        finally:
            client.close()
            portal.call(stands.close)


def ask(client: Client) -> list[str]:
    client.send(ApiKey.METADATA, 9, build_request(ApiKey.METADATA, {"topics": [{"name": "t"}]}))
    return [topic.name for topic in client.receive().topics]


def test_a_request_that_no_rule_matches_passes_and_is_a_near_miss() -> None:
    with between(OF_BROKERS, OTHER) as (stands, client):
        assert ["t"] == ask(client)
        assert [0, 0] == [armed.hits for armed in stands.rules]
        assert ["Rule other expects 1 hit"] == [said[:24] for said in stands.unmet()]


def test_an_answer_is_lost_once_and_the_request_was_served() -> None:
    with between(LOST) as (stands, client):
        with pytest.raises(ConnectionClosed):
            ask(client)
        assert [] == stands.unmet()
        [request] = stands.rules[0].requests
        assert (["t"], 1) == (request.ids["topic"], request.broker)
        assert request.at_ms > 1_700_000_000_000


def test_requests_of_brokers_are_told_by_their_listener() -> None:
    told = Rule(name="told", match=Match(api="METADATA", sender="broker"), expect=Expect(hits=1))
    with between(told, of_brokers=True) as (stands, client):
        assert ["t"] == ask(client)
        assert [] == stands.unmet()


def test_what_no_network_does_is_refused() -> None:
    with pytest.raises(Unplayable):
        check_playable([Rule(match=Match(api="METADATA"), act=Act(error="NOT_COORDINATOR"))])
    check_playable([LOST, Rule(match=Match(api="END_TXN"), then=[Step(restart_broker="asked")])])
