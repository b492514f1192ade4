"""The producer of `odradek.testing.dialects` in the simulated world: its steps, run to their end."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec.structs import replace
from tests.kips.cluster import Cluster

from odradek.releases.dialects.producer import Ask, Pause, Producer, Role, Steps, run_at_once
from odradek.wire.messages.create_acls_request import AclCreation, CreateAclsRequest
from odradek.wire.messages.create_acls_response import CreateAclsResponse
from odradek.wire.registry import ApiKey

__all__ = ["AUTHORIZER", "Player", "everybody_may", "play"]

T = TypeVar("T")


def play(cluster: Cluster, steps: Steps[T]) -> T:
    """Run the steps of a producer, each request to whom it is for at that moment."""

    def serve(step: Ask | Pause) -> object:
        if isinstance(step, Pause):
            cluster.world.advance(step.milliseconds)
            return None
        try:
            return cluster.ask(_node(cluster, step), step.request, step.version)
        except ConnectionError:
            return None

    return run_at_once(serve, steps)


def _node(cluster: Cluster, ask: Ask) -> int:
    match ask.role, ask.key:
        case Role.ANYBODY, _:
            return 1
        case Role.BROKER, str(node_id):
            return int(node_id)
        case Role.LEADER, (topic, index):
            return cluster.leader((topic, index))
        case Role.GROUP, str(group):
            return cluster.leader(cluster.offsets_of(group))
        case _, str(transactional_id):
            return cluster.coordinator(transactional_id)
        case _:
            raise AssertionError(ask)


AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def everybody_may(cluster: Cluster, *creations: AclCreation) -> None:
    """Have who may do everything, which is the node itself, let others do something."""
    request = CreateAclsRequest(creations=[replace(each, principal="User:*") for each in creations])
    node = cluster.node(1)

    async def ask() -> None:
        response = await node.peers.call_controller(ApiKey.CREATE_ACLS, request, 3, CreateAclsResponse)
        assert response is not None
        assert {0} == {each.error_code for each in response.results}

    cluster.do(lambda: node.kernel.spawn(ask()))


class Player:
    """A producer of the cluster's dialect, played step by step."""

    def __init__(
        self, cluster: Cluster, tid: str | None = "x", *, kind: type[Producer] = Producer, **how: object
    ) -> None:
        self.cluster = cluster
        self.core = kind(cluster.world.config.release, tid, now=lambda: cluster.world.now, **how)  # type: ignore[arg-type]

    @classmethod
    def started(cls, cluster: Cluster, tid: str = "x", **how: Any) -> Player:
        """One that has its id and epoch."""
        player = cls(cluster, tid, **how)
        player.do(player.core.init())
        return player

    def do(self, steps: Steps[T]) -> T:
        """Run some steps."""
        return play(self.cluster, steps)

    @property
    def pair(self) -> tuple[int, int]:
        """Its id and epoch."""
        return self.core.pair
