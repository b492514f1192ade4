"""Sentences about the cause that holds up a partition or a transaction.

Times are milliseconds since 1970, by the clock of the caller.
"""

from __future__ import annotations

from msgspec import Struct

from odradek.stuck.words import ago, clock, in_time, listed, plain

__all__ = [
    "MARKER_UNREPLICATED",
    "OpenTransaction",
    "consumers_stop",
    "ends_by_itself",
    "hangs_there",
    "is_not_at_rest",
    "marker_is_missing",
    "markers_in",
    "open_there",
]

MARKER_UNREPLICATED = "a marker is written there, and not every replica in sync has it"
LAST_RECORD = "its last record is being written"
CLOCKS_APART_MS = 3_600_000
"""A record's timestamp comes from the application: if it is this much older than the transaction it is ignored."""


class OpenTransaction(Struct, frozen=True, kw_only=True):
    """An open or ending transaction, by its coordinator."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    """Kafka's name of the state."""
    ends: bool
    """Whether it is decided, so that only markers are missing."""
    since_ms: int
    aborted_at_ms: int | None = None
    """When the coordinator aborts it; None if it does not."""
    partitions: tuple[str, ...] = ()
    """As `TOPIC-INDEX`."""


def consumers_stop(partition: str, at: int, until: int, why: str) -> str:
    """The offset at which read_committed consumers of a partition stop; `until` is the high watermark."""
    return f"Consumers (read_committed) of {plain(partition)} stop at offset {at} of {until}: {why}."


def open_there(of: OpenTransaction, now: int, *, newest_ms: int = -1, by_rules: str = "") -> str:
    """A transaction that is open in a partition; `newest_ms` is the timestamp of its newest record, -1 if unknown."""
    since = f"{plain(of.transactional_id)} is open there since {clock(of.since_ms)} ({ago(now - of.since_ms)})"
    is_of_it = newest_ms >= max(0, of.since_ms - CLOCKS_APART_MS)
    newest = f"its newest record there is {ago(now - newest_ms)} old" if is_of_it else ""
    return "; ".join(part for part in (since, newest, by_rules, ends_by_itself(of, now)) if part)


def marker_is_missing(of: OpenTransaction, *, by_rules: str = "") -> str:
    """A decided transaction whose marker is not in the partition."""
    why = f"{plain(of.transactional_id)} is {of.state}, and its marker is not written there yet"
    return f"{why}; {by_rules}" if by_rules else why


def hangs_there(producer_id: int) -> str:
    """A transaction that is open in a partition, but at no coordinator."""
    return f"producer {producer_id} has a transaction open there that no coordinator knows, so that it hangs"


def is_not_at_rest(of: OpenTransaction, broker: int, now: int, *, owed: str = "", by_rules: str = "") -> str:
    """A transaction at its coordinator; `owed` is the work that it waits for, such as `markers_in` some partitions."""
    at = f", {listed(list(of.partitions))}" if of.partitions else ", no partition yet"
    what = f"Transaction {plain(of.transactional_id)} is {of.state} for {ago(now - of.since_ms)} at broker {broker}"
    what += f" (producer {of.producer_id}, epoch {of.producer_epoch}{at})"
    waits = f"it waits for {owed}" if owed else ""
    ends = "" if owed and of.ends else ends_by_itself(of, now)
    return f"{what}: {'; '.join(part for part in (waits, by_rules, ends) if part)}."


def markers_in(partitions: list[str]) -> str:
    """The markers that are missing in these partitions; empty without any."""
    return f"its marker in {listed(partitions)}" if partitions else ""


def ends_by_itself(of: OpenTransaction, now: int) -> str:
    """The event that ends a transaction without further requests."""
    if of.ends:
        return LAST_RECORD
    if of.aborted_at_ms is None:
        return "it has no timeout, so that its producer alone ends it"
    return f"if its producer does not end it, the coordinator aborts it {in_time(of.aborted_at_ms, now)}"
