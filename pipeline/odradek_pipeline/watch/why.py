"""Why consumers stop, and what open transactions wait for: the sentences of the hub, made of what a look has seen."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.core.internal_topics import INTERNAL_TOPICS
from odradek.stuck.sentences import (
    OpenTransaction,
    consumers_stop,
    hangs_there,
    is_not_at_rest,
    marker_is_missing,
    markers_in,
    open_there,
)
from odradek.stuck.words import plain
from odradek_pipeline.watch.brokers import OpenProducer, Partition, UnderWay
from odradek_pipeline.watch.look import Look, is_known
from odradek_pipeline.watch.names import coordinator_of
from odradek_pipeline.wording import counted

__all__ = ["sentences", "why_consumers_stop", "why_not_at_rest"]

OF_A_KIND_MAX = 10
FOREVER_MS = 2**31 - 1
"""The timeout of a transaction that takes part in two-phase commit (KIP-939)."""


def sentences(look: Look) -> Iterator[str]:
    """A sentence for each partition that consumers stop in, and for each transaction that holds none of them."""
    behind = sorted(at for at in look.behind if at[0] not in INTERNAL_TOPICS)
    yield from (why_consumers_stop(look, at) for at in behind[:OF_A_KIND_MAX])
    told = {holder.producer_id for at in behind if (holder := look.holder(at)) is not None}
    others = sorted((one for one in look.under_way if one.producer_id not in told), key=lambda one: one.start_ms)
    yield from (why_not_at_rest(look, one) for one in others[:OF_A_KIND_MAX])
    for left, kind in ((len(behind), "partition"), (len(others), "transaction")):
        if left > OF_A_KIND_MAX:
            yield f"There is more to say of {counted(left - OF_A_KIND_MAX, kind)}."


def why_consumers_stop(look: Look, at: Partition) -> str:
    """What keeps the last stable offset of a partition below its high watermark."""
    return consumers_stop(f"{at[0]}-{at[1]}", look.stable[at], look.high[at], _holding_back(look, at))


def _holding_back(look: Look, at: Partition) -> str:
    holder = look.holder(at)
    if holder is None:
        if at not in look.told:
            return "its leader did not say which producer has a transaction open there"
        return "no producer has a transaction open there any more; its marker may not be replicated yet"
    known = next((one for one in look.under_way if is_known(holder, [one])), None)
    if known is None:
        return _unknown(look, holder)
    of = _facts(known)
    return marker_is_missing(of) if of.ends else open_there(of, look.at_ms, newest_ms=holder.last_timestamp)


def _unknown(look: Look, holder: OpenProducer) -> str:
    if holder in look.unknown and not look.doubts:
        return hangs_there(holder.producer_id)
    why = f": {plain(look.doubts)}" if look.doubts else ""
    return f"producer {holder.producer_id} has a transaction open there, and not every coordinator could be asked{why}"


def why_not_at_rest(look: Look, one: UnderWay) -> str:
    """What a transaction waits for."""
    _, broker = coordinator_of(one.transactional_id, look.layout)
    of = _facts(one)
    owing = sorted(f"{topic}-{index}" for topic, index in one.partitions) if of.ends else []
    return is_not_at_rest(of, broker, look.at_ms, owed=markers_in(owing))


def _facts(one: UnderWay) -> OpenTransaction:
    ends = one.state.startswith("Prepare")
    has_timeout = not ends and one.timeout_ms < FOREVER_MS
    return OpenTransaction(
        transactional_id=one.transactional_id,
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        state=one.state,
        ends=ends,
        since_ms=one.start_ms,
        aborted_at_ms=one.start_ms + one.timeout_ms if has_timeout else None,
        partitions=tuple(sorted(f"{topic}-{index}" for topic, index in one.partitions)),
    )
