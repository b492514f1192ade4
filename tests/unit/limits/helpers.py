"""Worlds with limits, and clients that go beyond them."""

from __future__ import annotations

from odradek.sim import World
from odradek.wire.messages.alter_client_quotas_request import AlterClientQuotasRequest, EntityData, EntryData, OpData

__all__ = ["limit"]


def limit(world: World, *entity: tuple[str, str | None], node_id: int = 1, **limits: float | None) -> None:
    """Put limits of an entity, or take them away, and let all brokers hear of it."""
    ops = [OpData(key=key, value=value or 0.0, remove=value is None) for key, value in limits.items()]
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    request = AlterClientQuotasRequest(entries=[EntryData(entity=parts, ops=ops)])
    [answer] = world.client(node_id, client_id="admin").ask(request, 1).entries
    assert 0 == answer.error_code, answer.error_message
    world.run()
