"""From what the logs hold to anomalies: transactions against the coordinators' own log, and severities.

Kafka's `kafka-transactions find-hanging` asks the living brokers the same question: which transactions are open in a
partition whose coordinator knows nothing of them (KIP-664). Here both sides come from log directories.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from odradek_pipeline.audit.result import Severity, anomaly
from odradek_pipeline.directories.proof import CLOCKS_MS, Proof
from odradek_pipeline.logs.payload import TransactionRecord
from odradek_pipeline.transactions.allowed import allowed_anomalies, why_broken
from odradek_pipeline.transactions.coordinators import Coordinators
from odradek_pipeline.wording import span, time_of

__all__ = ["LogFacts", "judge", "open_transactions", "split_anomalies", "suspicious"]

Partition = tuple[str, int]
Row = Mapping[str, Any]


@dataclass(slots=True)
class LogFacts:
    """What is known of the partitions beside their batches."""

    starts: Mapping[Partition, int]
    """First offset of each partition by the name of its first segment; above 0, older batches were deleted."""
    cleaned: Mapping[Partition, int]
    """Up to where compaction has removed batches."""
    proof: Proof = field(default_factory=Proof)
    """Which of these partitions were closed, and up to when the others tell."""
    metadata_is_final: bool = True
    """Whether the metadata log was closed, so that it has whatever was decided before."""

    def is_cleaned(self, row: Row) -> bool:
        """Whether compaction may have removed what seems to be missing before this row."""
        key = (row["topic"], row["partition"])
        return (row["topic"].startswith("__") and self.cleaned.get(key, 0) > 0) or row.get(
            "offset", row.get("first_offset", 0)
        ) < self.cleaned.get(key, 0)

    def is_trimmed(self, row: Row) -> bool:
        """Whether retention has removed the beginning of the partition."""
        return self.starts.get((row["topic"], row["partition"]), 0) > 0


def suspicious(txns: pd.DataFrame, level_2: Set[tuple[int, int]], whole_since: int) -> pd.Series[bool]:
    """Which transactions need a verdict; all others are a commit or an abort as it should be.

    For `whole_since` see `Coordinators`.
    """
    level = pd.Series(
        [pair in level_2 for pair in zip(txns["producer_id"], txns["epoch"], strict=True)], index=txns.index, dtype=bool
    )
    not_bumped = level & (txns["marker_offset"] >= 0) & (txns["marker_epoch"] == txns["epoch"])
    return (
        txns["outcome"].isin(["open", "dropped"])
        | (txns["batches"] == 0)
        | (txns["lowest_epoch_step"] < 0)
        | (txns["coordinator_epoch"].between(0, txns["coordinator_epoch_before"] - 1))
        | txns["wrong"]
        | not_bumped
        | (level & undecided_commits(txns))
        | surplus_commits(txns, whole_since)
    )


def undecided_commits(txns: pd.DataFrame) -> pd.Series[bool]:
    """Which were committed by a marker that no decision is there for; abort markers are written by operators, too."""
    return txns["undecided"] & (txns["outcome"] == "commit") & (txns["batches"] > 0)


def surplus_commits(txns: pd.DataFrame, whole_since: int) -> pd.Series[bool]:
    """Which were committed by a marker too many, although the coordinators' log has every decision."""
    behind = txns["marker_timestamp"] - CLOCKS_MS > whole_since
    return txns["surplus"] & (txns["outcome"] == "commit") & behind


def open_transactions(txns: pd.DataFrame, coordinators: Coordinators) -> pd.DataFrame:
    """The table of open transactions with what their coordinator says."""
    table = txns[txns["outcome"] == "open"].reset_index(drop=True)
    verdicts = [coordinators.status(row) for row in table.to_dict("records")]
    table["status"] = [status for status, _ in verdicts]
    table["transactional_id"] = [record.transactional_id if record else "" for _, record in verdicts]
    table["coordinator_state"] = [record.state if record else "" for _, record in verdicts]
    return table.astype({"status": "object", "transactional_id": "object", "coordinator_state": "object"})


def judge(
    *,
    opened: pd.DataFrame,
    odd: pd.DataFrame,
    breaks: pd.DataFrame,
    allowed: pd.DataFrame,
    jumps: pd.DataFrame,
    lacking: pd.DataFrame,
    coordinators: Coordinators,
    facts: LogFacts,
) -> list[dict[str, Any]]:
    """Every anomaly, with its severity; `allowed` are those of `Explained`, which are not among the others."""
    found = [_hanging(row) for row in opened.to_dict("records") if row["status"] != "ongoing"]
    for row in odd.to_dict("records"):
        found += _odd(row, coordinators, facts, jumps)
    found += [_break(row, coordinators) for row in _runs(breaks).to_dict("records")]
    found += allowed_anomalies(allowed, coordinators.transactional_id)
    found += _missing_markers(found, lacking, facts)
    found += [_overdue(record, age) for record, age in coordinators.overdue]
    found += [_stuck(record, age) for record, age in coordinators.stuck]
    found += [_premature(record, highest, facts) for record, highest in coordinators.premature]
    found += [anomaly(name, Severity.BAD, told, **_of_record(record)) for record, name, told in coordinators.odd]
    return found + _unexplained_jumps(jumps, found, facts)


def _evidence(row: Row, **more: Any) -> dict[str, Any]:
    keys = ("topic", "partition", "producer_id", "path", "position")
    return {key: row[key] for key in keys} | {"producer_epoch": row["epoch"]} | more


def _hanging(row: Row) -> dict[str, Any]:
    severity = Severity.BAD if row["status"] == "hanging" else Severity.INFO
    says = {
        "unknown": "not all of __transaction_state was read, so it may still be under way",
        "unproven": "no coordinator has it under way, but its broker was running, or a directory is an older copy than "
        "another, and it may have ended since, or begun; kafka-transactions.sh find-hanging asks the brokers",
        "hanging": f"its coordinator says {row['coordinator_state']}"
        if row["coordinator_state"]
        else "no coordinator knows its producer",
    }[row["status"]]
    records = f"{row['records']:,} {'record' if row['records'] == 1 else 'records'}"
    detail = f"open since offset {row['first_offset']}, {records}; {says}"
    where = _evidence(row, offset=row["first_offset"], end_offset=-1, transactional_id=row["transactional_id"])
    return anomaly("txn-hanging", severity, detail, **where)


def _odd(row: Row, coordinators: Coordinators, facts: LogFacts, jumps: pd.DataFrame) -> list[dict[str, Any]]:
    known = {"transactional_id": coordinators.transactional_id(row["producer_id"])}
    found: list[dict[str, Any]] = []
    if row["outcome"] == "dropped":
        detail = f"no marker before the producer went on in another epoch at offset {row['next_offset']}"
        where = _evidence(row, offset=row["first_offset"], end_offset=row["next_offset"], **known)
        found.append(anomaly("txn-hanging", Severity.BAD, detail, **where))
    at_marker = bool(row["marker_offset"] >= 0)
    marker = {
        "topic": row["topic"],
        "partition": row["partition"],
        "producer_id": row["producer_id"],
        "producer_epoch": row["marker_epoch"],
        "offset": row["marker_offset"],
        "path": row["marker_path"],
        "position": row["marker_position"],
        **known,
    }
    if row["wrong"]:
        decided = "PrepareAbort" if row["outcome"] == "commit" else "PrepareCommit"
        detail = f"its coordinator decided {decided}, and the marker here says {row['outcome']}"
        found.append(anomaly("txn-wrong-outcome", _if_told(row, coordinators, facts), detail, **marker))
    if row["outcome"] == "commit" and row["batches"] > 0 and not row["wrong"]:
        found += _undecided(row, marker, coordinators, facts)
    if at_marker and 0 <= row["coordinator_epoch"] < row["coordinator_epoch_before"]:
        epochs = f"{row['coordinator_epoch']} behind {row['coordinator_epoch_before']}"
        detail = f"a marker of coordinator epoch {epochs}: a coordinator that had been replaced wrote it"
        found.append(anomaly("coordinator-epoch-regression", Severity.BAD, detail, **marker))
    if at_marker and row["batches"] == 0 and not row["wrong"]:
        found += _empty(row, marker, coordinators, facts, jumps)
    if row["lowest_epoch_step"] < 0:
        where = marker if at_marker else _evidence(row, offset=row["first_offset"], **known)
        detail = f"an epoch below one that the producer had here before (by {-row['lowest_epoch_step']})"
        found.append(anomaly("txn-marker-epoch-regression", Severity.BAD, detail, **where))
    if (
        at_marker
        and row["batches"] > 0
        and row["marker_epoch"] == row["epoch"]
        and (row["producer_id"], row["epoch"]) in coordinators.level_2
    ):
        detail = "begun at level 2, yet the marker has the epoch of the data: a late batch would pass (KIP-890)"
        found.append(anomaly("txn-epoch-not-bumped", _if_told(row, coordinators, facts), detail, **marker))
    return found


def _undecided(row: Row, marker: dict[str, Any], coordinators: Coordinators, facts: LogFacts) -> list[dict[str, Any]]:
    """A commit that no decision is there for, where the log that should have it is whole.

    Of an epoch that was begun at level 2 the log of the producer's coordinator says so. Of an epoch that nobody
    began, of one below level 2, and of a producer of which no coordinator has a record, the whole log says so: else
    compaction may have removed the decision, and behind a tombstone the transactional id.
    """
    who = row["producer_id"]
    is_known = who in coordinators.last
    is_begun = row["undecided"] and (who, row["epoch"]) in coordinators.level_2
    if (is_known and not coordinators.has_history(who)) or not (is_begun or coordinators.lacks_decision(row)):
        return []
    if is_known:
        detail = "a commit that no coordinator has decided: its log is whole, and has no such decision"
        return [anomaly("txn-undecided-marker", _if_told(row, coordinators, facts), detail, **marker)]
    detail = f"a commit that no coordinator has decided: their log is whole, and has no record of producer {who}"
    if facts.proof.every_coordinator_reaches(row["marker_timestamp"]):
        return [anomaly("txn-undecided-marker", Severity.BAD, detail, **marker)]
    detail += "; but not all of it was read, or copied, after the marker was written"
    return [anomaly("txn-undecided-marker", Severity.INFO, detail, **marker)]


def _if_told(row: Row, coordinators: Coordinators, facts: LogFacts) -> Severity:
    """Bad, if its coordinator's log was read after the marker was written: else it may say later why it is so."""
    of = coordinators.partition_of(row["producer_id"])
    return Severity.BAD if facts.proof.coordinator_reaches(of, row["marker_timestamp"]) else Severity.INFO


def _empty(
    row: Row, marker: dict[str, Any], coordinators: Coordinators, facts: LogFacts, jumps: pd.DataFrame
) -> list[dict[str, Any]]:
    """A marker without data: a partition may be added and not written to, and markers may be written twice."""
    outcome = row["outcome"]
    if facts.is_cleaned({"topic": row["topic"], "partition": row["partition"], "offset": row["marker_offset"]}):
        return []
    lost = _has_jump(jumps, row, after=row["previous_offset"], until=row["marker_offset"])
    first = row["previous_marker"] < 0
    if first and facts.is_trimmed(row):
        return []
    before = "commit" if row["previous_marker"] == 1 else "abort"
    alone = first or lost or row["previous_marker_epoch"] != row["marker_epoch"]
    # Before level 2 the epoch stays: a transaction that adds the partition, sends nothing and ends is a decision too.
    if alone or (before != outcome and not row["undecided"]):
        severity, more = (Severity.BAD, ": offsets before it are missing") if lost else (Severity.ALLOWED, "")
        detail = f"{outcome} of a transaction that has no data here{more}"
        return [anomaly("txn-orphan-marker", severity, detail, **marker)]
    detail = f"{outcome} directly behind {before} of the same epoch"
    if before == outcome:
        return [anomaly("txn-double-marker", Severity.ALLOWED, f"{detail}: written again", **marker)]
    known = coordinators.has_history(row["producer_id"])
    detail += "" if known else "; what its coordinator decided is not in the log any more"
    severity = _if_told(row, coordinators, facts) if known else Severity.INFO
    return [anomaly("txn-double-marker", severity, detail, **marker)]


def _has_jump(jumps: pd.DataFrame, row: Row, *, after: int, until: int) -> bool:
    if jumps.empty:
        return False
    here = jumps[(jumps["topic"] == row["topic"]) & (jumps["partition"] == row["partition"])]
    return bool(
        (
            (here["base_offset"] > after)
            & (here["base_offset"] <= until)
            & (here["base_offset"] > here["previous_offset"] + 1)
        ).any()
    )


def _break(row: Row, coordinators: Coordinators) -> dict[str, Any]:
    where = _evidence(
        row,
        offset=row["previous_offset"] + 1,
        end_offset=row["offset"],
        transactional_id=coordinators.transactional_id(row["producer_id"]),
    )
    more = f"; and {row['count'] - 1:,} more behind it, up to offset {row['last']}" if row["count"] > 1 else ""
    return anomaly(row["anomaly"], Severity.BAD, why_broken(row) + more, **where)


_RUN = ["anomaly", "topic", "partition", "producer_id", "epoch"]


def _runs(breaks: pd.DataFrame) -> pd.DataFrame:
    """The first of each kind in a producer's epoch, with how many follow it and how far they go (`count`, `last`): one
    batch with a number that is too high makes all behind it look repeated. Where offsets go back, batches are there
    twice, and each is a place of its own."""
    if breaks.empty:
        return breaks.assign(count=0, last=0)
    ordered = breaks.sort_values(["topic", "partition", "offset"], kind="stable")
    forward = ordered["offset"] > ordered["previous_offset"]
    rows = ordered[forward]
    of = rows.groupby(_RUN, sort=False)
    first = rows.assign(count=of["offset"].transform("size"), last=of["offset"].transform("max")).drop_duplicates(_RUN)
    back = ordered[~forward]
    back = back.assign(count=1, last=back["offset"])
    return pd.concat([first, back]).sort_index()


def _missing_markers(found: list[dict[str, Any]], lacking: pd.DataFrame, facts: LogFacts) -> list[dict[str, Any]]:
    """Decisions that are complete, says the coordinator, but whose marker a partition does not have.

    Nothing is open there: what is, is told as a transaction.
    """
    names = ("txn-hanging", "txn-wrong-outcome")
    told = {(row["topic"], row["partition"], row["producer_id"]) for row in found if row["anomaly"] in names}
    missing = []
    for row in lacking.to_dict("records"):
        if (row["topic"], row["partition"], row["producer_id"]) in told:
            continue
        state = "PrepareCommit" if row["commit"] else "PrepareAbort"
        detail = f"{state} at {time_of(row['timestamp'])} and complete for its coordinator, but its marker is not here"
        where = {key: row[key] for key in ("topic", "partition", "producer_id", "path", "position")}
        where |= {"producer_epoch": row["epoch"], "transactional_id": row["name"]}
        is_proven = facts.proof.reaches((row["topic"], row["partition"]), row["completed"])
        detail += (
            "" if is_proven else "; its broker was running, and the partition may be older than what was read of it"
        )
        missing.append(anomaly("txn-without-marker", Severity.BAD if is_proven else Severity.INFO, detail, **where))
    return missing


def _overdue(record: TransactionRecord, age: int) -> dict[str, Any]:
    detail = f"{record.state} after {span(age)}, with a timeout of {span(record.timeout_ms)}"
    return anomaly("txn-timeout-exceeded", Severity.BAD, detail, **_of_record(record))


def _stuck(record: TransactionRecord, age: int) -> dict[str, Any]:
    places = ", ".join(f"{topic}-{partition}" for topic, partition in record.partitions)
    detail = f"{record.state} for {span(age)}, and not all markers are written: {places}"
    return anomaly("stuck-prepare", Severity.BAD, detail, **_of_record(record))


def _premature(record: TransactionRecord, highest: int, facts: LogFacts) -> dict[str, Any]:
    detail = (
        f"begun at level {record.client_transaction_version} of transaction.version, of which the cluster had "
        f"finalized no more than {highest}"
    )
    severity = Severity.BAD if facts.metadata_is_final else Severity.INFO
    return anomaly("txn-level-not-finalized", severity, detail, **_of_record(record))


def _of_record(record: TransactionRecord) -> dict[str, Any]:
    return {
        "topic": "__transaction_state",
        "partition": record.partition,
        "offset": record.offset,
        "path": record.path,
        "position": record.position,
        "producer_id": record.producer_id,
        "producer_epoch": record.producer_epoch,
        "transactional_id": record.transactional_id,
    }


def split_anomalies(rows: pd.DataFrame, coordinators: Coordinators) -> list[dict[str, Any]]:
    """One for each transaction with both outcomes, at the marker of the outcome that fewer partitions have."""
    found = []
    for (producer_id, epoch), txn in rows.groupby(["producer_id", "marker_epoch"], sort=False):
        outcomes = {
            outcome: sorted(f"{row['topic']}-{row['partition']}" for row in of.to_dict("records"))
            for outcome, of in txn.groupby("outcome")
        }
        rare = min(outcomes, key=lambda outcome: len(outcomes[outcome]))
        row = txn[txn["outcome"] == rare].iloc[0]
        detail = "; ".join(f"{outcome} in {', '.join(places)}" for outcome, places in outcomes.items())
        where = {
            "topic": row["topic"],
            "partition": row["partition"],
            "offset": row["marker_offset"],
            "path": row["marker_path"],
            "position": row["marker_position"],
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "transactional_id": coordinators.transactional_id(int(producer_id)),
        }
        found.append(anomaly("txn-split-outcome", Severity.BAD, detail, **where))
    return found


def _unexplained_jumps(jumps: pd.DataFrame, found: list[dict[str, Any]], facts: LogFacts) -> list[dict[str, Any]]:
    """Offsets that are missing, or go back, where nothing else was said about them."""
    rows = []
    bad: dict[Partition, list[dict[str, Any]]] = {}
    for told in found:
        if told["severity"] == "bad":
            bad.setdefault((told["topic"], told["partition"]), []).append(told)
    for row in jumps.to_dict("records"):
        gap = row["base_offset"] - row["previous_offset"] - 1
        if not gap:
            rows.append(_misnamed(row))
            continue
        last_missing = {**row, "offset": row["base_offset"] - 1}
        if (gap > 0 and facts.is_cleaned(last_missing)) or _is_explained(
            row, bad.get((row["topic"], row["partition"]), [])
        ):
            continue
        name = "offset-gap" if gap > 0 else "offset-regression"
        detail = f"offset {row['base_offset']} follows {row['previous_offset']}"
        rows.append(
            anomaly(
                name,
                Severity.BAD,
                detail,
                topic=row["topic"],
                partition=row["partition"],
                offset=row["previous_offset"] + 1,
                end_offset=row["base_offset"],
                path=row["path"],
                position=row["position"],
            )
        )
    return rows


def _misnamed(row: Row) -> dict[str, Any]:
    """A segment that follows the one before, under another name than the offset that was due."""
    where = {key: row[key] for key in ("topic", "partition", "path", "position")}
    detail = f"its name says offset {row['segment']}, its first batch {row['base_offset']}"
    offsets = {"offset": row["base_offset"], "end_offset": row["base_offset"]}
    return anomaly("misnamed-segment", Severity.BAD, detail, **where, **offsets)


def _is_explained(jump: Row, found: list[dict[str, Any]]) -> bool:
    """By what is bad in the same partition."""
    for row in found:
        name = row["anomaly"]
        if name == "txn-without-marker":
            return True
        if name == "txn-orphan-marker" or (name == "txn-hanging" and row["end_offset"] < 0):
            if (name == "txn-hanging" and row["offset"] <= jump["base_offset"]) or (
                name == "txn-orphan-marker" and jump["base_offset"] <= row["offset"]
            ):
                return True
        elif row["offset"] <= jump["base_offset"] <= row["end_offset"] or (
            name == "seq-duplicate" and row["position"] == jump["position"]
        ):
            return True
    return False
