"""What a watch shows: lines as incidents open and close, a table, and a page for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from odradek_pipeline.watch.look import Look
from odradek_pipeline.watch.names import Names
from odradek_pipeline.watch.watcher import Incident
from odradek_pipeline.watch.why import sentences
from odradek_pipeline.wording import counted, time_of

if TYPE_CHECKING:
    from rich.console import Group

__all__ = ["Numbers", "Picture", "lines_of", "table_of"]

ROWS_SHOWN = 20
OLDER_SHOWN = 5


@dataclass(slots=True)
class Picture:
    """What is known now; the page reads it from another thread, so it is replaced as a whole."""

    look: Look | None = None
    names: Names = field(default_factory=Names)
    incidents: tuple[Incident, ...] = ()
    looks: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    """Verifications that failed, by their error, where an event log tells."""

    @property
    def why(self) -> list[str]:
        """What consumers and transactions wait for, one sentence each."""
        return [] if self.look is None else list(sentences(self.look))


def lines_of(one: Incident) -> Iterator[str]:
    """An incident as it opens, changes or closes."""
    if one.closed_ms >= 0:
        yield f"{time_of(one.closed_ms)} closed {one.incident}: {one.what}"
        return
    since = f" (since {time_of(one.since_ms)})" if one.since_ms > 0 else ""
    yield f"{time_of(one.opened_ms)} opened {one.incident}: {one.what}{since}"
    if one.why:
        yield f"  why: {one.why}"
    if one.blocks:
        yield f"  blocks: {one.blocks}"
    for command in one.run:
        yield f"  run: {command}"


def table_of(picture: Picture) -> Group:
    """The table for a terminal."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold")
    for heading in ("partition", "end", "stable", "behind", "held by", "producer", "since offset"):
        table.add_column(heading, justify="left" if heading in ("partition", "held by") else "right")
    look = picture.look
    parts = [Text(_headline(picture))]
    if look is None:
        return Group(*parts)
    behind = sorted(look.behind, key=lambda at: look.stable[at] - look.high[at])
    for at in behind[:ROWS_SHOWN]:
        holder = look.holder(at)
        cells = (
            ("", "", "")
            if holder is None
            else (
                picture.names.of_producer.get(holder.producer_id, "?"),
                str(holder.producer_id),
                str(holder.start_offset),
            )
        )
        high, stable = look.high[at], look.stable[at]
        table.add_row(f"{at[0]}-{at[1]}", f"{high:,}", f"{stable:,}", f"{high - stable:,}", *cells)
    bodies = [table] if behind else []
    more = [Text(f"and {len(behind) - ROWS_SHOWN} more")] if len(behind) > ROWS_SHOWN else []
    return Group(*parts, *bodies, *more)


def _headline(picture: Picture) -> str:
    look = picture.look
    if look is None:
        return "no broker answers"
    oldest = oldest_ms(look)
    age = f", the oldest for {oldest / 1000:.1f} s" if oldest is not None else ""
    levels = picture.names.levels()
    older = list(picture.names.older())
    some = ", ".join(older[:OLDER_SHOWN]) + (", …" if len(older) > OLDER_SHOWN else "")
    clients = (
        ", ".join(f"{count} by clients of transaction.version {level}" for level, count in levels.items()) or "none"
    )
    verified = ", ".join(f"{count} {name}" for name, count in sorted(picture.failures.items()))
    now = (
        f"{time_of(look.at_ms)}  {counted(len(look.layout.addresses), 'broker')}, "
        f"{counted(len(look.wanted), 'partition')}, {len(look.behind)} behind; "
        f"{counted(len(look.under_way), 'transaction')} under way{age}"
    )
    lines = [now, f"transactional ids: {clients}" + (f" (below 2: {some})" if older and 2 in levels else "")]
    if verified:
        lines.append(f"verifications that failed: {verified}")
    if not look.is_whole:
        why = look.doubts or f"not looked at: {counted(len(look.unseen), 'partition')}"
        lines.append(f"not everything was looked at: {why}")
    return "\n".join(lines)


def oldest_ms(look: Look) -> int | None:
    """How long the oldest transaction is under way, as its coordinator says."""
    starts = [one.start_ms for one in look.under_way if one.start_ms > 0]
    return max(0, look.at_ms - min(starts)) if starts else None


class Numbers(Collector):
    """What a look has found, as numbers."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture

    def collect(self) -> Iterator[Metric]:
        picture = self._picture
        yield CounterMetricFamily("odradek_watch_looks", "looks at the cluster", value=picture.looks)
        incidents = GaugeMetricFamily(
            "odradek_watch_open_incidents", "incidents that are open", labels=["incident", "severity"]
        )
        for (name, severity), count in Counter((one.incident, one.severity) for one in picture.incidents).items():
            incidents.add_metric([name, severity], count)
        yield incidents
        failed = CounterMetricFamily(
            "odradek_watch_verification_failures", "verifications that failed", labels=["error"]
        )
        for name, count in picture.failures.items():
            failed.add_metric([name], count)
        yield failed
        ids = GaugeMetricFamily(
            "odradek_watch_transactional_ids", "transactional ids by the level of their client", labels=["level"]
        )
        for level, count in picture.names.levels().items():
            ids.add_metric([str(level)], count)
        yield ids
        if picture.look is not None:
            yield from _of_look(picture.look)


def _of_look(look: Look) -> Iterator[Metric]:
    lag = GaugeMetricFamily(
        "odradek_watch_last_stable_offset_lag",
        "offsets between the last stable offset and the high watermark, where there are any",
        labels=["topic", "partition"],
    )
    for at in look.behind:
        lag.add_metric([at[0], str(at[1])], look.high[at] - look.stable[at])
    yield lag
    plain = {
        "odradek_watch_last_look_seconds": ("when the last look began, since 1970", look.at_ms / 1000),
        "odradek_watch_transactions_under_way": ("transactions under way", len(look.under_way)),
        "odradek_watch_oldest_transaction_seconds": ("age of the oldest of them", (oldest_ms(look) or 0) / 1000),
        "odradek_watch_brokers_away": ("brokers that did not answer", len(look.away)),
        "odradek_watch_partitions_not_looked_at": ("partitions that nobody spoke for", len(look.unseen)),
    }
    for name, (about, value) in plain.items():
        yield GaugeMetricFamily(name, about, value=value)
