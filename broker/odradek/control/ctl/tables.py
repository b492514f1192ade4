"""The output of commands: tables for people, JSON for scripts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from odradek.control.ctl.at import AsJson, At, Cluster, Url

__all__ = [
    "BROKER_COLUMNS",
    "CLUSTER_COLUMNS",
    "RULE_COLUMNS",
    "SECTIONS",
    "SNAPSHOT_COLUMNS",
    "TRANSACTION_COLUMNS",
    "listing",
    "show_answer",
    "table",
]

LEASE = "lease_s"
ENDLESS = "none"
"""Shown in place of a lease of 0 seconds, which never ends."""
CLUSTER_COLUMNS = ("id", "bootstrap", LEASE)
SNAPSHOT_COLUMNS = ("name", "cluster", "brokers", "bytes_held", "taken_at_ms", "directory")
BROKER_COLUMNS = ("id", "host", "port", "state", "fenced", "controller", "connections", "parked", "leads")
RULE_COLUMNS = ("name", "matched", "hits", "held", "unmet")
TRANSACTION_COLUMNS = (
    "transactional_id", "state", "producer_id", "producer_epoch", "coordinator", "partitions", "owed_markers",
)  # fmt: skip
GROUP_COLUMNS = ("group_id", "state", "type", "coordinator", "members", "offsets")
PARTITION_COLUMNS = (
    "topic", "partition", "leader", "leader_epoch", "log_start_offset", "last_stable_offset", "high_watermark",
)  # fmt: skip
PARKED_COLUMNS = ("broker", "api", "version", "client_id", "age_ms", "rule", "waits_for")
SECTIONS = {
    "brokers": BROKER_COLUMNS,
    "partitions": PARTITION_COLUMNS,
    "transactions": TRANSACTION_COLUMNS,
    "groups": GROUP_COLUMNS,
    "parked": PARKED_COLUMNS,
    "rules": RULE_COLUMNS,
}


class Shown(At):
    """A cluster of the hub, and the form in which the command prints answers."""

    def __init__(self, hub: Url = None, cluster: Cluster = None, as_json: AsJson = False) -> None:
        super().__init__(hub, cluster)
        self.as_json = as_json

    def show(self, answer: object, columns: Sequence[str]) -> None:
        """Print an answer of the hub, as a table or unchanged."""
        show_answer(answer, self.as_json, columns)


def show_answer(answer: Any, as_json: bool, columns: Sequence[str]) -> None:
    """Print an answer of the hub, as a table or unchanged."""
    if as_json:
        print(json.dumps(answer, indent=2, ensure_ascii=False))
        return
    rows = answer if isinstance(answer, list) else [answer]
    for line in table(columns, rows):
        print(line)


def table(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Rows with aligned columns, numbers to the right."""
    cells = [[_cell_of(row, column) for column in columns] for row in rows]
    heads = [column.replace("_", " ").upper() for column in columns]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    numeric = [bool(cells) and all(row[at].lstrip("-").isdecimal() for row in cells) for at in range(len(columns))]
    return [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in [heads, *cells]
    ]


def _cell_of(row: Mapping[str, Any], column: str) -> str:
    return ENDLESS if column == LEASE and not row[LEASE] else _cell(row.get(column))


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_cell, value)) or "-"
    if isinstance(value, dict):
        if value.keys() >= {"topic", "partition"}:
            offset = f"={value['offset']}" if "offset" in value else ""
            return f"{value['topic']}-{value['partition']}{offset}"
        return str(value.get("member_id", value.get("id", value)))
    return "-" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def listing(section: str, about: str) -> Callable[..., None]:
    """The command that lists a section of a cluster's state."""

    def run(at: Shown) -> None:
        at.show(at.get(section), SECTIONS[section])

    run.__doc__ = about
    return run
