"""Imports what the first requests of a kind would import, once the cluster is ready and nobody waits for that.

`odradek serve` is ready in a tenth of a second because it imports little; the first request of a group would import a
hundred modules, and everybody would wait for it. Here a thread does, one piece after the other: Python lets the event
loop go on every 5 ms meanwhile. Who comes before it is done pays for what he needs, as he would without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from odradek.host.router import SERVED, Router
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.releases import Release

__all__ = ["pieces", "warm"]

_FAMILIES = {served.api_key: served.module for served in SERVED}
AFTER_S = 0.25
"""How long after it is ready: who only starts and stops a broker does not pay."""
PAUSE_S = 0.005
"""Between two pieces."""
FIRST: Sequence[ApiKey] = (
    ApiKey.METADATA,
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.INIT_PRODUCER_ID,
)
"""Most clients call these APIs first, so the broker imports their modules first."""


async def warm(release: Release, *, after_s: float = AFTER_S, pause_s: float = PAUSE_S) -> None:
    """Import piece by piece; what cannot be imported here is left to whoever asks for it."""
    await anyio.sleep(after_s)
    for piece in pieces(release):
        try:
            await to_thread.run_sync(piece, abandon_on_cancel=True)
        except ImportError:
            continue
        await anyio.sleep(pause_s)


def pieces(release: Release) -> Iterator[Callable[[], object]]:
    """What there is to import for a broker of this release, each piece by itself, the likeliest first."""
    router = Router(release)
    told = [api_key for api_key, _, _ in router.ranges()]
    first = [api_key for api_key in FIRST if api_key in told]
    for api_key in first:
        yield partial(_served, api_key, router)
    yield from (_groups, _newer_groups, _transactions, _verification, _changes, _long_messages)
    for api_key in told:
        if api_key not in first:
            yield partial(_served, api_key, router)


def _served(api_key: ApiKey, router: Router) -> None:
    """Import the family of an API, and the codecs of its messages."""
    import_module(_FAMILIES[api_key])
    router.handler(api_key, router.newest(api_key), broker=False)


# ruff: noqa: F401 - to import is all that these do


def _groups() -> None:
    import odradek.group.coordinator
    import odradek.group.shard


def _newer_groups() -> None:
    import odradek.group.streams.groups


def _transactions() -> None:
    import odradek.txn.rules
    import odradek.txn.shard


def _verification() -> None:
    import odradek.txn.admission


def _changes() -> None:
    import odradek.metadata.configs
    import odradek.metadata.deletion
    import odradek.metadata.eligible
    import odradek.metadata.partitions
    import odradek.metadata.reassignment


def _long_messages() -> None:
    import odradek.wire.emit_reader
    import odradek.wire.emit_writer
