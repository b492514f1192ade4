"""The kinds of events (docs/events.md); unknown ones are refused, because a wait for one would never end."""

from __future__ import annotations

from difflib import get_close_matches

__all__ = ["KINDS", "check_kind"]

KINDS = (
    "request",
    "response",
    "init_producer_id",
    "transaction_kept",
    "partitions_added",
    "state_change",
    "fenced",
    "verify_start",
    "verify_end",
    "parked",
    "resumed",
    "transaction_opened",
    "marker_written",
    "transaction_closed",
    "lso_moved",
    "leadership_taken",
    "leadership_given_up",
    "log_truncated",
    "dead_letters_lost",
    "feature_changed",
    "group_state_change",
    "telemetry_pushed",
    "controller_activated",
    "broker_fenced",
    "metadata_transaction_began",
    "metadata_transaction_ended",
    "metadata_transaction_aborted",
    "metadata_fault",
    "group_record_skipped",
    "log_segment_dropped",
    "replication_factor_lowered",
)


def check_kind(kind: str) -> str:
    """The kind, if it exists. Raises ValueError with one sentence if not."""
    if kind in KINDS:
        return kind
    near = get_close_matches(kind, KINDS, n=1)
    meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(KINDS)}."
    raise ValueError(f"There is no event {kind!r}: {meant}")
