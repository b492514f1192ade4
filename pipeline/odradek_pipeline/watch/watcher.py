"""Incidents of a running cluster, as they open and close: a fold over looks.

Nothing here asks anybody: what a look says goes in, what has changed comes out. An incident closes when a look shows
that it is over, never because a broker could not be asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from odradek_pipeline.incidents.words import words_of
from odradek_pipeline.watch.brokers import OpenProducer, Partition, UnderWay
from odradek_pipeline.watch.look import Look
from odradek_pipeline.watch.names import Names, coordinator_of
from odradek_pipeline.watch.why import why_consumers_stop, why_not_at_rest

__all__ = ["Incident", "Memory", "Watcher", "abort_command"]

PREPARED_MS = 60_000
"""Markers take milliseconds; a decision without all of them after as long is stuck (as in the audit of logs)."""
TIMEOUT_GRACE_MS = 20_000
"""Coordinators look for timeouts every ten seconds."""
STALL_MS = 10_000
PLACES_SHOWN = 20

_COORDINATORS = ("stuck-prepare", "txn-timeout-exceeded")


class Incident(msgspec.Struct, kw_only=True):
    """One cause, from when it was seen until it was over; times in milliseconds since 1970, -1 where there is none."""

    key: str
    incident: str
    severity: str
    since_ms: int = -1
    """Since when it is so, by the cluster's own times; -1 where they do not tell."""
    opened_ms: int = -1
    closed_ms: int = -1
    topic: str = ""
    partition: int = -1
    offset: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    transactional_id: str = ""
    places: list[tuple[str, int, int]] = []
    """Topic, partition and first offset of each partition that it holds."""
    what: str = ""
    why: str = ""
    """What holds it up, as the hub says it; for incidents of transactions alone."""
    blocks: str = ""
    run: list[str] = []


class Memory(msgspec.Struct):
    """What outlasts a restart of the watch."""

    cluster_id: str = ""
    incidents: dict[str, Incident] = {}
    stable_since: dict[str, tuple[int, int]] = {}
    """By partition, the last stable offset and since when it is that, while the log's end is beyond it."""
    prepared_since: dict[str, int] = {}


@dataclass(slots=True)
class Watcher:
    """The fold."""

    bootstrap: str
    stall_ms: int = STALL_MS
    memory: Memory = field(default_factory=Memory)
    ever_bad: bool = False

    @property
    def incidents(self) -> list[Incident]:
        """What is open now, the worst first."""
        return sorted(self.memory.incidents.values(), key=lambda one: (one.severity != "bad", one.opened_ms, one.key))

    def see(self, look: Look, names: Names, confirm: Callable[[Incident], bool]) -> list[Incident]:
        """Fold one look; the incidents that opened, changed or closed with it.

        `confirm` asks the brokers once more, before a command that ends a transaction is given; an incident that it
        denies is none.
        """
        self.memory.cluster_id = look.layout.cluster_id or self.memory.cluster_id
        found = {one.key: one for rule in _RULES for one in rule(self, look, names)}
        causes = {one.producer_id for one in found.values() if one.severity == "bad"}
        found = {key: one for key, one in found.items() if one.incident != "lso-stall" or one.producer_id not in causes}
        changed: list[Incident] = []
        for key, one in found.items():
            before = self.memory.incidents.get(key)
            if before is not None and before.places == one.places:
                continue
            if one.incident == "hanging-transaction" and not confirm(one):
                continue
            one.opened_ms = look.at_ms if before is None else before.opened_ms
            self.memory.incidents[key] = one
            self.ever_bad |= one.severity == "bad"
            changed.append(one)
        for key, one in list(self.memory.incidents.items()):
            if key not in found and _may_close(one, look):
                del self.memory.incidents[key]
                one.closed_ms = look.at_ms
                self.ever_bad |= one.severity == "bad"  # it may have been opened before a restart
                changed.append(one)
        return changed

    def words(self, one: Incident, detail: str, high: Mapping[Partition, int]) -> Incident:
        """With its sentences."""
        row = {
            "anomaly": one.incident,
            "topic": one.topic,
            "partition": one.partition,
            "offset": one.offset,
            "producer_id": one.producer_id,
            "transactional_id": one.transactional_id,
            "detail": detail,
        }
        said = words_of(one.incident, row, {at: end - 1 for at, end in high.items()})
        one.what, one.blocks = said["what"], said["blocks"]
        one.run = [abort_command(self.bootstrap, place) for place in one.places] or [
            line.replace("HOST:PORT", self.bootstrap) for line in [said["run"]] if line
        ]
        return one


def abort_command(bootstrap: str, place: tuple[str, int, int]) -> str:
    """What ends a hanging transaction in one partition (KIP-664)."""
    topic, partition, offset = place
    return (
        f"kafka-transactions.sh --bootstrap-server {bootstrap} abort --topic {topic} --partition {partition} "
        f"--start-offset {offset}"
    )


def _may_close(one: Incident, look: Look) -> bool:
    """Whether what this look has not found is over, and not only out of sight."""
    if one.incident == "broker-away":
        return True
    if one.incident in _COORDINATORS:
        return not look.doubts
    partitions = [(topic, partition) for topic, partition, _ in one.places] or [(one.topic, one.partition)]
    unseen = set(look.unseen)
    if not all(at in look.wanted and at not in unseen for at in partitions):
        return all(at not in look.layout.leaders for at in partitions) and look.is_whole  # deleted
    still = {(opened.at, opened.producer_id) for opened in look.opened}
    open_yet = one.incident == "hanging-transaction" and any((at, one.producer_id) in still for at in partitions)
    return not (open_yet and look.doubts)


# ---------------------------------------------------------------------- rules


def _hanging(watcher: Watcher, look: Look, names: Names) -> Iterator[Incident]:
    """Open, and no coordinator knows: nothing will end it. One for all partitions of a producer's transaction."""
    if look.doubts:
        return
    by_producer: dict[tuple[int, int], list[OpenProducer]] = {}
    for one in look.unknown:
        by_producer.setdefault((one.producer_id, one.producer_epoch), []).append(one)
    for (producer_id, epoch), places in by_producer.items():
        places.sort(key=lambda one: (one.topic, one.partition))
        first = places[0]
        others = f"; so in {len(places)} partitions" if len(places) > 1 else ""
        incident = Incident(
            key=f"hanging-transaction {producer_id} {epoch}",
            incident="hanging-transaction",
            severity="bad",
            since_ms=min(one.last_timestamp for one in places),
            topic=first.topic,
            partition=first.partition,
            offset=first.start_offset,
            producer_id=producer_id,
            producer_epoch=epoch,
            transactional_id=names.of_producer.get(producer_id, ""),
            places=[(one.topic, one.partition, one.start_offset) for one in places],
        )
        incident.why = why_consumers_stop(look, first.at)
        yield watcher.words(incident, f"no coordinator has it under way{others}", look.high)


def _stuck(watcher: Watcher, look: Look, names: Names) -> Iterator[Incident]:
    """Decided, and not all markers are there after a minute."""
    prepared = watcher.memory.prepared_since
    now: dict[str, int] = {}
    for one in look.under_way:
        if not one.state.startswith("Prepare"):
            continue
        key = f"{one.transactional_id} {one.producer_id} {one.producer_epoch} {one.state}"
        now[key] = since = prepared.get(key, look.at_ms)
        if look.at_ms - since >= PREPARED_MS:
            detail = f"{one.state} for {(look.at_ms - since) // 1000} s and more"
            yield watcher.words(_of_coordinator("stuck-prepare", one, look, since), detail, look.high)
    if look.doubts:  # who was not asked may have it still
        now = prepared | now
    watcher.memory.prepared_since = now


def _too_long(watcher: Watcher, look: Look, names: Names) -> Iterator[Incident]:
    """Under way beyond its timeout: its coordinator should have aborted it."""
    for one in look.under_way:
        age = look.at_ms - one.start_ms
        if one.state == "Ongoing" and one.start_ms > 0 and age > one.timeout_ms + TIMEOUT_GRACE_MS:
            detail = f"begun {age // 1000} s ago, with a timeout of {one.timeout_ms / 1000:g} s"
            yield watcher.words(_of_coordinator("txn-timeout-exceeded", one, look, one.start_ms), detail, look.high)


def _of_coordinator(name: str, one: UnderWay, look: Look, since: int) -> Incident:
    partition, _ = coordinator_of(one.transactional_id, look.layout)
    return Incident(
        key=f"{name} {one.transactional_id} {one.producer_id} {one.producer_epoch}",
        incident=name,
        severity="bad",
        since_ms=since,
        topic="__transaction_state",
        partition=partition,
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        transactional_id=one.transactional_id,
        why=why_not_at_rest(look, one),
    )


def _stalls(watcher: Watcher, look: Look, names: Names) -> Iterator[Incident]:
    """The last stable offset of a partition stays where it is, while its end is beyond it."""
    behind = set(look.behind)
    before, now = watcher.memory.stable_since, dict[str, tuple[int, int]]()
    for at in look.wanted:
        name = f"{at[0]}-{at[1]}"
        if at not in look.stable or at not in look.high:
            if name in before:
                now[name] = before[name]
            continue
        if at not in behind:
            continue
        stable = look.stable[at]
        known = before.get(name, (-1, -1))
        now[name] = known if known[0] == stable else (stable, look.at_ms)
        if look.at_ms - now[name][1] >= watcher.stall_ms:
            yield _stall(watcher, look, names, at, since=now[name][1])
    watcher.memory.stable_since = now


def _stall(watcher: Watcher, look: Look, names: Names, at: Partition, *, since: int) -> Incident:
    stable, holder = look.stable[at], look.holder(at)
    transactional_id = names.of_producer.get(holder.producer_id, "") if holder is not None else ""
    held_by = f"producer {holder.producer_id}" if holder is not None else "nobody who is known"
    incident = Incident(
        key=f"lso-stall {at[0]}-{at[1]} {stable}",
        incident="lso-stall",
        severity="info",
        since_ms=since,
        topic=at[0],
        partition=at[1],
        offset=stable,
        producer_id=holder.producer_id if holder is not None else -1,
        producer_epoch=holder.producer_epoch if holder is not None else -1,
        transactional_id=transactional_id,
    )
    incident.why = why_consumers_stop(look, at)
    named = f" ({transactional_id})" if transactional_id else ""
    return watcher.words(incident, f"held by {held_by}{named}", look.high)


def _away(watcher: Watcher, look: Look, names: Names) -> Iterator[Incident]:
    """Brokers that do not answer, and partitions that nobody speaks for."""
    for address, why in look.away.items():
        yield Incident(
            key=f"broker-away {address}",
            incident="broker-away",
            severity="info",
            what=f"The broker at {address} does not answer: {why}.",
            blocks="What it leads was not looked at.",
        )
    alone = [at for at in look.unseen if look.layout.leaders.get(at, (-1, -1))[0] < 0]
    for topic, partition in alone[:PLACES_SHOWN]:
        yield Incident(
            key=f"no-leader {topic}-{partition}",
            incident="no-leader",
            severity="info",
            topic=topic,
            partition=partition,
            what=f"{topic}-{partition} has no leader.",
            blocks="Nobody can read it or write to it; it was not looked at.",
        )


_RULES: tuple[Callable[[Watcher, Look, Names], Iterator[Incident]], ...] = (
    _hanging,
    _stuck,
    _too_long,
    _stalls,
    _away,
)
