"""What is said of findings that no incident stands over: those of histories, copies and event logs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from odradek_pipeline.wording import listed, number

__all__ = ["MEANINGS", "sentences_of"]

_LOGS = "Find out whether the logs have it so, or only a client: odradek audit logs DIR… on the brokers' directories."
_CLIENT = "Look at what that process did before it, in the history."
_CYCLE = "Look at these operations in the history, and whether all of them were transactions of one application."
_AGAIN = "Make the copy again, into a new topic and with a new folder for --checkpoint."
_BEFORE = "Look at what the event log has of this partition before: leadership_taken, log_truncated, marker_written."
_ABORT = (
    "kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic {topic} --partition {partition} "
    "--start-offset {offset}"
)
_WHO = "kafka-transactions.sh --bootstrap-server HOST:PORT describe-producers --topic {topic} --partition {partition}"
_DESCRIBE = "kafka-transactions.sh --bootstrap-server HOST:PORT describe --transactional-id {transactional_id}"

MEANINGS: dict[str, tuple[str, str, str, str]] = {
    "inconsistent-offsets": (
        "An offset was read with two values",
        "{n} offsets were read with two values each",
        "Consumers do not agree on what the log holds.",
        _LOGS,
    ),
    "duplicate": (
        "A value is there at two offsets",
        "{n} values are there at two offsets each",
        "It was written twice; whoever reads counts it twice.",
        _LOGS,
    ),
    "G1a": (
        "What an aborted transaction wrote was read",
        "{n} values that aborted transactions wrote were read",
        "Consumers acted on what never happened.",
        _LOGS,
    ),
    "precommitted-read": (
        "A transaction read its own write before it was committed",
        "{n} reads were of what their own transaction had not committed yet",
        "Reads were not isolated.",
        "Let its consumers read with isolation.level=read_committed, and look again.",
    ),
    "lost-write": (
        "An acknowledged write was never read, and later ones were",
        "{n} acknowledged writes were never read, and later ones were",
        "Acknowledged records are gone.",
        _LOGS,
    ),
    "unseen": (
        "An acknowledged write was not read to the end",
        "{n} acknowledged writes were not read to the end",
        "It may be late, or lost.",
        "Let the consumers read on to the end of the log, and audit again. " + _LOGS,
    ),
    "int-poll-skip": (
        "The polls of a transaction left out records",
        "{n} polls within transactions left out records",
        "Its outputs rest on part of its inputs.",
        _CLIENT,
    ),
    "int-nonmonotonic-poll": (
        "The polls of a transaction went back",
        "{n} polls within transactions went back",
        "Its outputs count inputs twice.",
        _CLIENT,
    ),
    "poll-skip": (
        "The polls of a process left out records",
        "{n} polls left out records that their process had not seen",
        "It acted on part of the log.",
        _CLIENT,
    ),
    "nonmonotonic-poll": (
        "The polls of a process went back",
        "{n} polls went back behind what their process had seen",
        "It acted on records twice.",
        _CLIENT,
    ),
    "nonmonotonic-send": (
        "The sends of a process are in another order in the log",
        "{n} sends are in another order in the log than their process sent them",
        "Order within a partition did not hold.",
        _CLIENT,
    ),
    "int-nonmonotonic-send": (
        "The sends of a transaction are in another order in the log",
        "{n} sends are in another order in the log than in their transaction",
        "Order within it did not hold.",
        _CLIENT,
    ),
    "G0": (
        "Transactions overwrite each other in a cycle",
        "Transactions overwrite each other in {n} cycles",
        "There is no order in which they happened.",
        _CYCLE,
    ),
    "G1c": (
        "Transactions depend on each other in a cycle",
        "Transactions depend on each other in {n} cycles",
        "There is no order in which they happened.",
        _CYCLE,
    ),
    "copy-lost": (
        "A committed record was not copied",
        "{n} committed records were not copied",
        "The copy is not whole.",
        _AGAIN,
    ),
    "copy-duplicate": (
        "A record was copied more often than it was committed",
        "{n} records were copied more often than they were committed",
        "Whoever reads the copy counts them twice.",
        _AGAIN,
    ),
    "copy-contaminated": (
        "The copy has a record that was not committed",
        "The copy has {n} records that were not committed",
        "The copy holds what never happened.",
        _AGAIN,
    ),
    "copy-altered": (
        "A record was copied with other headers or another time",
        "{n} records were copied with other headers or other times",
        "Whoever goes by them reads something else.",
        _AGAIN,
    ),
    "txn-wrong-outcome": (
        "A marker contradicts the decision of its coordinator",
        "{n} markers contradict the decisions of their coordinators",
        "A transaction has two outcomes.",
        "No command mends it. " + _WHO,
    ),
    "txn-without-marker": (
        "A transaction is complete, and a partition has no marker of it",
        "Transactions are complete, and {n} of their partitions have no marker",
        "It is open there for good: read_committed consumers stop at it.",
        _DESCRIBE,
    ),
    "offset-regression": (
        "Offsets that were written already were written again",
        "Offsets that were written already were written again, {n} times",
        "Records that were there are replaced.",
        _BEFORE,
    ),
    "txn-hanging": (
        "A transaction of {who} hangs",
        "A transaction of {who} hangs",
        "read_committed consumers wait there for good.",
        _ABORT,
    ),
    "lso-stall": (
        "A last stable offset stays where it is",
        "{n} last stable offsets stay where they are",
        "read_committed consumers waited that long.",
        _WHO,
    ),
}
"""By finding: what is said of one and of several, what it costs, and what to run."""
PLACES_SHOWN = 3
_HELD = ["topic", "partition", "producer_id"]
_NUMBERS = ("partition", "offset", "end_offset", "producer_id", "producer_epoch", "position")


def sentences_of(bad: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Bad anomalies as incidents: one for each hanging transaction, with the stalls that it holds, and else one for
    each kind; where they are is told of the first."""
    is_hanging, is_stall = bad["anomaly"] == "txn-hanging", bad["anomaly"] == "lso-stall"
    hanging = bad[is_hanging]
    held = is_stall & pd.MultiIndex.from_frame(bad[_HELD]).isin(pd.MultiIndex.from_frame(hanging[_HELD]))
    for _, rows in hanging.groupby(["producer_id", "producer_epoch"], sort=False):
        producer = rows["producer_id"].iloc[0]
        yield _sentence("txn-hanging", rows, follow=int((held & (bad["producer_id"] == producer)).sum()))
    for kind, rows in bad[~is_hanging & ~held].groupby("anomaly", sort=False):
        yield _sentence(str(kind), rows)


def _sentence(kind: str, rows: pd.DataFrame, *, follow: int = 0) -> dict[str, Any]:
    plain = kind.replace("-", " ").capitalize()
    one, many, blocks, run = MEANINGS.get(kind, (plain, f"{plain}, {{n}} times", "", ""))
    first = {str(key): value for key, value in rows.iloc[0].to_dict().items()}
    name = first["transactional_id"]
    fill = first | {
        "n": number(len(rows)),
        "who": f"producer {first['producer_id']}" + (f" ({name})" if name else ""),
    }
    if not name:
        run = run.replace(_DESCRIBE, _WHO)
    if "{topic}" in run and not first["topic"]:
        run = ""
    is_hanging = kind == "txn-hanging"
    places = list(
        dict.fromkeys(_place(row, with_offset=not is_hanging) for row in rows.to_dict("records") if row["topic"])
    )
    where = f"{' in ' if is_hanging else ': '}{listed(places, PLACES_SHOWN)}" if places else ""
    detail = ("of the first: " if len(rows) > 1 else "") + str(first["detail"]).rstrip(".")
    said = f"{'; ' if places and not is_hanging else ': '}{detail}" if first["detail"] else ""
    return {
        **{column: first[column] for column in (*_NUMBERS, "topic", "transactional_id", "path")},
        "incident": "hanging-transaction" if is_hanging else kind,
        "what": f"{(one if len(rows) == 1 else many).format_map(fill)}{where}{said}.",
        "since": -1,
        "begins": _begins(first),
        "blocks": blocks,
        "run": run.format_map(fill),
        "anomalies": len(rows) + follow,
        "problems": 0,
    }


def _place(row: dict[Any, Any], *, with_offset: bool) -> str:
    partition = str(f"{row['topic']}-{row['partition']}" if row["partition"] >= 0 else row["topic"])
    return f"{partition} at offset {number(row['offset'])}" if with_offset and row["offset"] >= 0 else partition


def _begins(first: dict[str, Any]) -> str:
    """Where a history has the first of it."""
    if first["position"] < 0 or not first["process"]:
        return ""
    return f"operation {number(first['position'] + 1)} of {first['path']}, of process {first['process']}"
