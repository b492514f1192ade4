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

from odradek.wire.errors import ErrorCode
from odradek.wire.messages.produce_response import PartitionProduceResponse
from odradek.wire.registry import ApiKey

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
    "finished",
    "judged",
    "new_clients",
    "old_clients",
    "refusal_of",
]


def refusal_of(style: Style) -> ErrorCode:
    """What this client hears when its partition is not in a transaction."""
    return ErrorCode.TRANSACTION_ABORTABLE if style.produce >= 11 else ErrorCode.INVALID_TXN_STATE


def finished(
    cluster: Cluster, style: Style, outcome: bool = ABORT
) -> tuple[Producer, Pending[PartitionProduceResponse]]:
    """A transaction with one record that is over, and a second record of it that has just arrived, too late."""
    producer = Producer.started(cluster, style)
    producer.begin(P)
    assert OK is producer.send(P, b"in time")
    on_its_way = cluster.hold(ApiKey.PRODUCE)
    late = producer.sending(P, b"late")
    assert OK is producer.finish(outcome)
    cluster.release(on_its_way)
    return producer, late
