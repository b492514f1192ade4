"""Imports the modules for the first requests of each kind, after the cluster is ready.

`odradek serve` is ready in a tenth of a second because it imports little; the first request of a group would import a
hundred modules, and all clients would wait for it. Here a thread imports them, one piece after the other: Python lets
the event loop run every 5 ms meanwhile. A request that comes earlier imports its own modules, as it would without the
thread.

What only some clients need is left to them: the libraries of compressed batches (`records/compressors.py`), the
generator of codecs for long messages (`wire/long.py`), and what reads responses and writes requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from odradek.broker import FAMILIES
from odradek.host.router import SERVED, Router
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from odradek.releases.release import Release

__all__ = ["pieces", "warm"]

_FAMILIES = {served.api_key: served.family for served in SERVED}
PAUSE_S = 0.005
"""The pause between two pieces."""
FIRST: Sequence[ApiKey] = (
    ApiKey.METADATA,
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.INIT_PRODUCER_ID,
)
"""Most clients call these APIs first, so the broker imports their modules first."""


async def warm(release: Release, *, pause_s: float = PAUSE_S) -> None:
    """Import piece by piece; a failed import is left to the request that needs the module."""
    for piece in pieces(release):
        try:
            await asyncio.to_thread(piece)
        except ImportError:
            continue
        await asyncio.sleep(pause_s)


def pieces(release: Release) -> Iterator[Callable[[], object]]:
    """The imports for a broker of this release, as separate pieces, the likeliest first."""
    router = Router(release)
    told = [api_key for api_key, _, _ in router.ranges()]
    first = [api_key for api_key in FIRST if api_key in told]
    for api_key in first:
        yield partial(_served, api_key, router)
    yield from (_groups, _newer_groups, _transactions, _verification, _housekeeping, _changes)
    for api_key in told:
        if api_key not in first:
            yield partial(_served, api_key, router)


def _served(api_key: ApiKey, router: Router) -> None:
    """Import the family of an API, and the codecs of its messages."""
    FAMILIES[_FAMILIES[api_key]]()
    router.handler(api_key, router.newest(api_key), broker=False)


# ruff: noqa: F401 - these functions only import


def _groups() -> None:
    import odradek.group.coordinator
    import odradek.group.shard


def _newer_groups() -> None:
    import odradek.group.consumer.records
    import odradek.group.share.records
    import odradek.group.streams.groups
    import odradek.group.streams.internal_topics
    import odradek.group.streams.records
    import odradek.share.shard
    import odradek.share.state_client


def _transactions() -> None:
    import odradek.txn.decision_tables
    import odradek.txn.shard
    import odradek.txn.write_markers


def _verification() -> None:
    import odradek.txn.admission


def _housekeeping() -> None:
    import odradek.log.compaction


def _changes() -> None:
    import odradek.metadata.configs
    import odradek.metadata.deletion
    import odradek.metadata.describe
    import odradek.metadata.eligible
    import odradek.metadata.partitions
    import odradek.metadata.reassignment
