"""When a broker asks the controller for producer ids."""

from __future__ import annotations

from odradek.sim import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest

REQUEST = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)


def test_each_broker_has_ids_from_the_start() -> None:
    world = World(brokers=2)
    given = {world.client(broker).ask(REQUEST, 4).producer_id for broker in (1, 2)}
    assert {0, 1000} == given


def test_a_cluster_that_starts_bare_gives_the_first_ids_to_who_first_needs_one() -> None:
    world = World(brokers=2, config={"odradek.internal.topics.at.start": False})
    client = world.client(2)

    # As recorded of Kafka: the broker has first to ask the controller, and does not let the client wait for that.
    assert ErrorCode.COORDINATOR_LOAD_IN_PROGRESS == client.ask(REQUEST, 4).error_code

    assert (ErrorCode.NONE, 0) == ((later := client.ask(REQUEST, 4)).error_code, later.producer_id)
