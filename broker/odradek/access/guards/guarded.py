"""The service of an API for those who may have it."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING

from odradek.access.guards.table import GUARDS

if TYPE_CHECKING:
    from odradek.access.authority import Authority
    from odradek.access.guards.parts import Node
    from odradek.host.call import Call, Serve
    from odradek.wire.registry import ApiKey

__all__ = ["guarded"]


def guarded(authority: Authority, node: Node, api_key: ApiKey, serve: Serve) -> Serve:
    """The same service, behind the guard of its API; brokers pass."""
    guard = GUARDS[api_key]
    if guard is None:
        return serve

    def unguarded(_: Node, call: Call) -> Coroutine[object, None, object]:
        return serve(call)

    async def served(call: Call) -> object:
        return await (serve(call) if call.is_broker else guard(authority, node, call, unguarded))

    return served
