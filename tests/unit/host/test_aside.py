"""What takes long is done beside the node's steps: others are served meanwhile, and what changed meanwhile counts."""

from __future__ import annotations

from collections.abc import Sequence

from tests.unit.host.helpers import produce_request

from odradek.broker import Node
from odradek.host.aside import Errand
from odradek.host.events import Compute, Computed, Effect, Received
from odradek.records.compression import Compression
from odradek.records.record import Record, build_batch
from odradek.sim import Answer, SimClient, World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.messages.produce_response import PartitionProduceResponse

BOMB = build_batch([Record(timestamp=1_700_000_000_000, key=None, value=bytes(5 << 20))], compression=Compression.GZIP)
"""5 KB that unpack to 5 MB."""


def work_in(effects: Sequence[Effect]) -> list[Errand[object]]:
    return [effect.work for effect in effects if isinstance(effect, Compute)]


class Held(World):
    """A world whose work beside the steps is done when the test says so."""

    def __init__(self) -> None:
        self.held: list[Errand[object]] = []
        super().__init__(topics=["t"])

    def _carry_out(self, node_id: int, effects: Sequence[Effect]) -> None:
        self.held += work_in(effects)
        super()._carry_out(node_id, [effect for effect in effects if not isinstance(effect, Compute)])

    def do(self) -> None:
        for work in self.held:
            work.run()
            self.post(1, Computed(work))
        self.held.clear()
        self.run()


def sent(world: World, client: SimClient) -> Answer:
    answer = client.send(produce_request(BOMB), 9)
    world.run()
    return answer


def answered(answer: Answer) -> PartitionProduceResponse:
    assert answer.arrived
    [topic] = answer.response.responses
    [partition] = topic.partition_responses
    assert isinstance(partition, PartitionProduceResponse)
    return partition


def test_others_are_served_while_a_batch_unpacks() -> None:
    world = Held()
    greedy, modest = world.client(), world.client()
    answer = sent(world, greedy)
    assert 1 == len(world.held)
    assert not answer.arrived
    assert 0 == modest.ask(ApiVersionsRequest(), 0).error_code
    world.do()
    assert ErrorCode.NONE == answered(answer).error_code
    assert 1 == world.nodes[1].partitions["t", 0].log.end_offset


def test_a_world_does_it_by_itself() -> None:
    world = World(topics=["t"])
    assert ErrorCode.NONE == answered(sent(world, world.client())).error_code


def test_the_next_request_of_the_connection_waits() -> None:
    world = Held()
    client = world.client()
    sent(world, client)
    after = client.send(ApiVersionsRequest(), 0)
    world.run()
    assert not after.arrived
    world.do()
    assert after.arrived


def test_a_partition_that_goes_meanwhile_is_not_written() -> None:
    world = Held()
    answer = sent(world, world.client())
    del world.nodes[1].partitions["t", 0]
    world.do()
    assert ErrorCode.NONE != answered(answer).error_code


def test_a_client_that_leaves_meanwhile_harms_nobody() -> None:
    world = Held()
    client = world.client()
    sent(world, client)
    client.close()
    world.run()
    world.do()
    assert 0 == world.client().ask(ApiVersionsRequest(), 0).error_code


def test_what_fails_beside_fails_its_flow_alone() -> None:
    world = World(topics=["t"])
    node = world.nodes[1]
    outcomes: list[BaseException | None] = []

    def fail() -> None:
        raise RuntimeError("beside")

    node.kernel.start(node.aside.do(fail), lambda _, error: outcomes.append(error))
    for work in work_in(stepped(node, world)):
        work.run()
        node.step(Computed(work), world.now)
    assert ["beside"] == [str(error) for error in outcomes]


def stepped(node: Node, world: World) -> list[Effect]:
    """The effects of a step in which nothing happens."""
    return node.step(Received(999, b""), world.now)
