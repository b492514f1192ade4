"""The history of a cluster's newest events, for the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from odradek.control.events import EventRing
from odradek.net.recent import Happened
from odradek.show.events import Event
from odradek.show.history import History, history_of, window_note

__all__ = ["MOST_MAX", "history"]

MOST_MAX = 5_000
NEAR = 12
"""The number of events before and behind one of a transactional id that are searched for its requests."""
NAMES_IT = frozenset(
    {
        "state_change",
        "init_producer_id",
        "transaction_kept",
        "partitions_added",
        "fenced",
        "verify_start",
        "verify_end",
        "parked",
        "resumed",
    }
)
NAMES_ITS_PRODUCER = frozenset({"transaction_opened", "marker_written", "transaction_closed"})
"""Kinds of events with a producer id only."""
NS_PER_MS = 1_000_000


def history(
    ring: EventRing, title: str, *, most: int = 500, transactional_id: str | None = None, before: int | None = None
) -> History:
    """The newest stored events up to a limit, or those before a number.

    With a transactional id: the events about it, and those near them. Nothing is stored between two calls.
    """
    end = ring.last + 1 if before is None else min(before, ring.last + 1)
    if transactional_id is None:
        seqs: Iterable[int] = range(max(ring.first, end - most), end)
    else:
        seqs = sorted(seq for seq in _about(ring, transactional_id) if ring.first <= seq < end)[-most:]
    events = [_event(each) for each in _happened(ring, frozenset(seqs))]
    left_out = ring.last - ring.first + 1 - len(events)
    note = window_note(len(events), left_out, first=None, before=before, transactional_id=transactional_id)
    return history_of(events, title=title, left_out=left_out, note=note)


def _about(ring: EventRing, transactional_id: str) -> set[int]:
    """The numbers of the events about an id, and of those near them."""
    named: list[int] = []
    of_producers: list[Happened] = []
    producer_ids: set[object] = set()
    for each in ring.recent.after(0):
        kind = each.fact.kind
        if kind in NAMES_IT and each.fact.fields.get("transactional_id") == transactional_id:
            named.append(each.seq)
            producer_ids.add(each.fact.fields.get("producer_id"))
        elif kind in NAMES_ITS_PRODUCER:
            of_producers.append(each)
    named += [each.seq for each in of_producers if each.fact.fields.get("producer_id") in producer_ids]
    return {near for seq in named for near in range(seq - NEAR, seq + NEAR + 1)}


def _happened(ring: EventRing, seqs: frozenset[int]) -> Iterator[Happened]:
    if not seqs:
        return
    last = max(seqs)
    for each in ring.recent.after(min(seqs) - 1):
        if each.seq in seqs:
            yield each
        if each.seq >= last:
            return


def _event(each: Happened) -> Event:
    """A time by the brokers' clock, which a test may move."""
    fact = each.fact
    return Event(
        seq=each.seq, at_ns=each.at_ms * NS_PER_MS, node=each.node, kind=fact.kind, fields=fact.fields | fact.body
    )
