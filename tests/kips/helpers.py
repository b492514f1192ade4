"""The words in which the KIP tests speak: a cluster, producers of every client style, and what a consumer sees.

Everything goes through encoded requests on connections of their own, so that nothing waits behind a request that is
parked; only the log itself is read from within.
"""

from __future__ import annotations

from tests.kips.cluster import ABORT, COMMIT, EPOCH_LAST, Cluster, judged
from tests.kips.producer import Producer
from tests.kips.styles import (
    NEW,
    NEW_STYLES,
    OLD,
    OLD_STYLES,
    Style,
    every_client,
    every_level,
    new_clients,
    old_clients,
)
from tests.kips.view import GROUP, OK, P, Pending, Q, R

__all__ = [
    "ABORT",
    "COMMIT",
    "EPOCH_LAST",
    "GROUP",
    "NEW",
    "NEW_STYLES",
    "OK",
    "OLD",
    "OLD_STYLES",
    "Cluster",
    "P",
    "Pending",
    "Producer",
    "Q",
    "R",
    "Style",
    "every_client",
    "every_level",
    "judged",
    "new_clients",
    "old_clients",
]
