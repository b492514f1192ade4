"""The KIP that defines a step of a transaction, by API and version, or by the kind of the event (docs/kips.md)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["APIS", "KINDS", "kip_of_api", "kip_of_kind"]

APIS: Mapping[str, tuple[tuple[int, str], ...]] = MappingProxyType(
    {
        "INIT_PRODUCER_ID": ((6, "KIP-939"), (5, "KIP-890"), (3, "KIP-360"), (0, "KIP-98")),
        "ADD_PARTITIONS_TO_TXN": ((4, "KIP-890"), (0, "KIP-98")),
        "ADD_OFFSETS_TO_TXN": ((4, "KIP-890"), (0, "KIP-98")),
        "PRODUCE": ((11, "KIP-890"), (3, "KIP-98")),
        "TXN_OFFSET_COMMIT": ((4, "KIP-890"), (3, "KIP-447"), (0, "KIP-98")),
        "END_TXN": ((4, "KIP-890"), (0, "KIP-98")),
        "WRITE_TXN_MARKERS": ((2, "KIP-1228"), (0, "KIP-98")),
        "ALLOCATE_PRODUCER_IDS": ((0, "KIP-730"),),
        "DESCRIBE_PRODUCERS": ((0, "KIP-664"),),
        "DESCRIBE_TRANSACTIONS": ((0, "KIP-664"),),
        "LIST_TRANSACTIONS": ((2, "KIP-1152"), (1, "KIP-994"), (0, "KIP-664")),
        "OFFSET_FOR_LEADER_EPOCH": ((0, "KIP-101"),),
        "ELECT_LEADERS": ((0, "KIP-460"),),
        "ALTER_PARTITION_REASSIGNMENTS": ((0, "KIP-455"),),
        "ALTER_PARTITION": ((0, "KIP-497"),),
        "UPDATE_FEATURES": ((0, "KIP-584"),),
        "CONSUMER_GROUP_HEARTBEAT": ((0, "KIP-848"),),
        "SHARE_GROUP_HEARTBEAT": ((0, "KIP-932"),),
        "SHARE_FETCH": ((0, "KIP-932"),),
        "SHARE_ACKNOWLEDGE": ((0, "KIP-932"),),
        "STREAMS_GROUP_HEARTBEAT": ((0, "KIP-1071"),),
        "GET_TELEMETRY_SUBSCRIPTIONS": ((0, "KIP-714"),),
        "PUSH_TELEMETRY": ((0, "KIP-714"),),
    }
)
"""For each API the first version of each KIP, the highest first."""
KINDS: Mapping[str, str] = MappingProxyType(
    {
        "init_producer_id": "KIP-98",
        "transaction_kept": "KIP-939",
        "partitions_added": "KIP-98",
        "state_change": "KIP-98",
        "fenced": "KIP-98",
        "verify_start": "KIP-890",
        "verify_end": "KIP-890",
        "parked": "KIP-890",
        "resumed": "KIP-890",
        "transaction_opened": "KIP-98",
        "marker_written": "KIP-98",
        "transaction_closed": "KIP-98",
        "lso_moved": "KIP-98",
        "leadership_taken": "KIP-101",
        "leadership_given_up": "KIP-101",
        "log_truncated": "KIP-101",
        "dead_letters_lost": "KIP-1191",
        "feature_changed": "KIP-584",
        "telemetry_pushed": "KIP-714",
        "broker_fenced": "KIP-631",
        "metadata_transaction_began": "KIP-868",
        "metadata_transaction_ended": "KIP-868",
        "metadata_transaction_aborted": "KIP-868",
    }
)
LEVEL_2 = "KIP-890"
SINCE_LEVEL_2 = frozenset({"init_producer_id", "partitions_added", "state_change", "fenced"})
"""Kinds of events that have another KIP from level 2 of transaction.version on."""
OF_TRANSACTIONS = frozenset({"PRODUCE"})
"""Requests that belong to a KIP of the table only as part of a transaction."""


def kip_of_api(api: str, version: int, *, transactional: bool) -> str | None:
    """The KIP of a request or response, such as `KIP-890`; None if the table has none."""
    if not transactional and api in OF_TRANSACTIONS:
        return None
    for lowest, kip in APIS.get(api, ()):
        if version >= lowest:
            return kip
    return None


def kip_of_kind(kind: str, level: object) -> str | None:
    """The KIP of another event, which may depend on the level of transaction.version."""
    if kind in SINCE_LEVEL_2 and isinstance(level, int) and level >= 2:
        return LEVEL_2
    return KINDS.get(kind)
