"""The audit of log directories: transactions, markers, epochs and sequences (KIP-98, KIP-664, KIP-890).

One pass over the headers yields the batches of producers and the places where offsets jump. The batches are grouped by
partition and producer, and checked by columns; what remains for the driver grows with the number of anomalies and open
transactions, not with the logs.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from odradek.core.internal_topics import partition_for
from odradek_pipeline.audit.progress import Progress
from odradek_pipeline.audit.result import Result, Severity, anomalies_frame
from odradek_pipeline.directories.place import Place
from odradek_pipeline.directories.proof import Proof, while_running, written_until
from odradek_pipeline.directories.replicas import compare_replicas
from odradek_pipeline.directories.shape import (
    future_times,
    same_batches,
    shape_anomalies,
    shape_problems,
    unknown_producers,
)
from odradek_pipeline.groups.offsets import GroupOffsets, offsets_behind_end, read_group_offsets
from odradek_pipeline.incidents.causes import Findings, find_incidents, incidents_frame
from odradek_pipeline.logs import files
from odradek_pipeline.logs.headers import digest
from odradek_pipeline.logs.layout import (
    TRANSACTION_STATE,
    FileKind,
    LogFile,
    Problem,
    Tree,
    find_files,
    problem,
)
from odradek_pipeline.logs.log_dirs import PartitionDir
from odradek_pipeline.logs.payload import TransactionRecord, transaction_log
from odradek_pipeline.logs.scan import scan_segments
from odradek_pipeline.logs.scanned import Scan
from odradek_pipeline.logs.sidecars import read_sidecars
from odradek_pipeline.logs.times import Span
from odradek_pipeline.transactions.allowed import Explained, gaps_in, merged_allowed
from odradek_pipeline.transactions.checks import (
    BATCH_COLUMNS,
    batch_frame,
    sequence_breaks,
    sequenced,
    sequences,
    split_outcomes,
    transactions,
)
from odradek_pipeline.transactions.coordinators import NEVER_WHOLE, Coordinators
from odradek_pipeline.transactions.decisions import (
    decision_frame,
    exchanged,
    lacking_markers,
    surplus,
    undecided,
    wrong_outcomes,
)
from odradek_pipeline.transactions.sidecar_checks import Beside, check_claims, claims_of, producer_states
from odradek_pipeline.transactions.steps import Known
from odradek_pipeline.transactions.timelines import delays, timelines
from odradek_pipeline.transactions.verdicts import LogFacts, judge, open_transactions, split_anomalies, suspicious
from odradek_pipeline.wording import counted, listed

__all__ = ["audit_logs", "Evidence"]


@dataclass(slots=True)
class Evidence:
    """What the verdicts rest on, in frames."""

    txns: pd.DataFrame
    """The suspicious ones."""
    breaks: pd.DataFrame
    """Without those that compaction or retention explains, as `txns`; these are `allowed`."""
    allowed: pd.DataFrame
    jumps: pd.DataFrame
    lacking: pd.DataFrame
    """Decisions without their marker."""
    split: pd.DataFrame
    """Transactions with both outcomes."""
    ends: dict[tuple[str, int], int]
    """The last offset of each partition."""
    newest: dict[tuple[str, int], int]
    """The newest time of each partition, ms."""
    digests: dict[tuple[str, int], tuple[int, int]]
    """Of each partition how many batches producers with ids wrote, and a number that says which and where."""
    producers: dict[tuple[str, int], int]
    """The highest producer id in each partition."""
    exchanged: dict[tuple[str, int], tuple[str, int]]
    """See `Findings`."""
    groups: GroupOffsets
    """Read before the partitions are: on a living broker a group may go on meanwhile."""
    proof: Proof


def audit_logs(
    directories: Iterable[str | Path],
    *,
    topics: Iterable[str] = (),
    check_crc: bool = False,
    not_after: int | None = None,
    state: Path | None = None,
    span: Span | None = None,
    progress: Progress | None = None,
) -> Result:
    """Audit in this process, without Spark: for logs whose batches fit into memory.

    For `not_after` see `newest`, for the others `Place.of`.
    """
    began = time.perf_counter()
    place = Place.of(directories, topics, state=state, span=span)
    step = progress.step if progress is not None else lambda name: None
    step("reading")
    groups = read_group_offsets(place.tree.files, place.tree.cleaned)
    before, first = coordinators_now(place.tree), Scan(cleaned=place.tree.cleaned)
    decided = transaction_log(place.tree.files, first)
    place = place.behind_decisions(state)
    tree = place.tree
    scan = Scan(check_crc=check_crc, memory=place.memory, problems=list(tree.problems), cleaned=tree.cleaned)
    scan.reading = progress.reading if progress is not None else None
    batches = read_batches(tree.files, scan)
    scan.reading = None
    place.find_gaps_of_cleaners(gaps_of(real_jumps(batches, tree.cleaned)))
    step("checking transactions")
    txns = transactions(batches)
    if coordinators_now(tree) == before:
        records = decided
        note_states(scan, first)
    else:
        records = read_states(tree, scan)
    proof = place.proof(written_until(batches, not_after))
    coordinators = read_coordinators(place, scan, decided, records, now=newest(batches, not_after), until=proof.until())
    decisions = decision_frame(coordinators.decisions, coordinators.complete)
    txns["undecided"] = undecided(decisions, txns)
    txns["surplus"] = surplus(decisions, txns)
    txns["wrong"] = wrong_outcomes(decisions, txns, txns["undecided"], tree.starts(), tree.cleaned)
    lacking = lacking_markers(decisions, txns, tree.starts(), tree.cleaned, place.created, place.cut)
    jumps = real_jumps(batches, tree.cleaned)
    split = split_outcomes(txns)
    explained = Explained.of(tree.starts(), tree.cleaned, jumps)
    numbers = sequenced(batches)
    breaks, removed = explained.breaks(sequence_breaks(batches, numbers))
    coordinators.whole_since = whole_since(place, oldest_of_coordinators(batches))
    is_odd = suspicious(txns, coordinators.level_2, coordinators.whole_since)
    odd, without_data = explained.markers(txns[is_odd])
    evidence = Evidence(
        odd,
        breaks,
        merged_allowed([removed, without_data]),
        jumps,
        lacking,
        split,
        ends_of(batches),
        times_of(batches),
        digests_of(batches),
        producers_of(batches),
        exchanged(lacking, txns),
        groups,
        proof,
    )
    step("comparing what lies beside")
    claims = claims_of(read_sidecars(tree.files), scan.problems)
    beside = Beside.of(tree, evidence.ends, scan.problems, place.created, place.cut)
    scan.problems += problems_of(check_claims(lambda: producer_states(batches), txns, claims, beside))
    for audited, others in place.several():
        scan.problems += compare_replicas(place.everything, audited, others, place.memory)
    place.forget()
    result = conclude(place, scan, evidence, coordinators, not_after=not_after)
    result.tables |= {
        "log_txns": txns,
        "sequences": sequences(batches, numbers),
        "timelines": timelines(records, txns, place.levels),
    }
    result.facts["delays_ms"] = delays(result.tables["timelines"])
    result.seconds = time.perf_counter() - began
    return result


def read_batches(files: Iterable[LogFile], scan: Scan) -> pd.DataFrame:
    """The headers of all segments in one frame."""
    frames = [batch_frame(chunk) for chunk in scan_segments(list(files), scan)]
    if not frames:
        return pd.DataFrame(columns=list(BATCH_COLUMNS)).astype(BATCH_COLUMNS)
    return pd.concat(frames, ignore_index=True)


def newest(batches: pd.DataFrame, not_after: int | None) -> int:
    """The clock of an audit: the newest timestamp of any batch. Producers give them as they like, so those that are
    later than the time on the wall, where that is given, do not count."""
    times = batches["max_timestamp"]
    within = times if not_after is None else times[times <= not_after]
    return int(within.max()) if len(within) else not_after or 0


def ends_of(rows: pd.DataFrame) -> dict[tuple[str, int], int]:
    """The last offset of each partition."""
    return rows.groupby(["topic", "partition"], sort=False)["last_offset"].max().to_dict()


def times_of(rows: pd.DataFrame) -> dict[tuple[str, int], int]:
    """The newest time of each partition."""
    return rows.groupby(["topic", "partition"], sort=False)["max_timestamp"].max().to_dict()


def oldest_of_coordinators(rows: pd.DataFrame) -> int:
    """The time of the oldest batch of the coordinators' log, ms; -1 where it has none."""
    times = rows.loc[rows["topic"] == TRANSACTION_STATE, "max_timestamp"]
    return int(times.min()) if len(times) else -1


def producers_of(rows: pd.DataFrame) -> dict[tuple[str, int], int]:
    """The highest producer id in each partition."""
    return rows.groupby(["topic", "partition"], sort=False)["producer_id"].max().to_dict()


def digests_of(rows: pd.DataFrame) -> dict[tuple[str, int], tuple[int, int]]:
    """What tells whether two partitions hold the same batches of producers at the same offsets."""
    data = rows[(rows["producer_id"] >= 0) & (rows["marker_type"] < 0) & (rows["record_count"] > 0)]
    if data.empty:
        return {}
    return {
        (str(key[0]), int(key[1])): (len(group), digest(group["base_offset"].to_numpy(), group["crc"].to_numpy()))
        for key, group in data.groupby(["topic", "partition"], sort=False)
    }


def problems_of(rows: pd.DataFrame) -> list[Problem]:
    """Rows of the table `problems`, whose last columns are severity and detail."""
    columns = ("path", "position", "problem", "detail", "severity")
    return [Problem(*row) for row in zip(*(rows[column] for column in columns), strict=True)]


def real_jumps(rows: pd.DataFrame, cleaned: Mapping[tuple[str, int], int]) -> pd.DataFrame:
    """Where offsets do not follow each other, also between the ranges of a partition; compaction explains gaps."""
    if rows.empty:
        return rows
    edges = rows[rows["jump"] | rows["last"]] if "last" in rows else rows
    ordered = edges.sort_values(["topic", "partition", "segment", "position"], kind="stable")
    before = ordered.groupby(["topic", "partition"], sort=False)["last_offset"].shift()
    ordered["previous_offset"] = (
        ordered["previous_offset"].where(ordered["previous_offset"] >= 0, before.fillna(-1)).astype("int64")
    )
    # A segment is named after its first offset.
    named = before.isna() & (ordered["position"] == 0)
    ordered.loc[named, "previous_offset"] = ordered.loc[named, "segment"] - 1
    # One that follows the segment before, and has another name than its first offset.
    renamed = before.notna() & (ordered["position"] == 0) & (ordered["segment"] != ordered["base_offset"])
    ordered = ordered[ordered["jump"] & (renamed | (ordered["base_offset"] != ordered["previous_offset"] + 1))]
    upto = [cleaned.get(key, 0) for key in zip(ordered["topic"], ordered["partition"], strict=True)]
    internal = ordered["topic"].str.startswith("__") & (np.array(upto, "i8") > 0)
    gap = ordered["base_offset"] > ordered["previous_offset"] + 1
    # The batch behind a gap may be the first one that compaction has not looked at.
    return ordered[~(gap & (internal | (ordered["base_offset"] <= upto)))]


def gaps_of(jumps: pd.DataFrame) -> set[tuple[str, int]]:
    """The partitions in which offsets are missing."""
    return set(gaps_in(jumps))


def read_states(tree: Tree, scan: Scan) -> list[TransactionRecord]:
    """The coordinators' log; what the pass over all segments has noted already is not noted again."""
    second = Scan(cleaned=tree.cleaned)
    records = transaction_log(tree.files, second)
    note_states(scan, second)
    return records


def note_states(scan: Scan, second: Scan) -> None:
    """What only the look into the coordinators' log has found."""
    known = set(scan.problems)
    scan.problems += [found for found in second.problems if found not in known]


def coordinators_now(tree: Tree) -> dict[str, tuple[int, int]]:
    """The segments of the coordinators' log as they are now, with their sizes and times: one that is allocated in
    advance does not grow while it is written to."""
    wanted = {Path(file.path).parent for file in tree.of(FileKind.SEGMENT, topic=TRANSACTION_STATE)}
    now = [file for path in sorted(wanted) for file in find_files([path]).of(FileKind.SEGMENT)]
    return {file.path: (file.size, _time_of(file.path)) for file in now}


def _time_of(path: str) -> int:
    try:
        return files.stat(path).mtime_ns
    except FileNotFoundError:  # deleted since it was listed
        return -1


def read_coordinators(
    place: Place,
    scan: Scan,
    decided: list[TransactionRecord],
    records: list[TransactionRecord],
    *,
    now: int,
    until: Mapping[int, int],
) -> Coordinators:
    """What the coordinators' log says, read behind the data; `decided` is what it said before.

    The directories may be those of a living broker. What was complete before the data were read must have its markers
    among them; what is open in the data must be under way afterwards, or have ended meanwhile (see `ended_meanwhile`).
    """
    tree = place.tree
    known_topic = bool(tree.of(FileKind.SEGMENT, topic=TRANSACTION_STATE))
    coordinators = Coordinators.fold(
        records, known=known_topic, now=now, levels=place.levels, around=known_around(place), until=until
    )
    if decided is not records:
        coordinators.complete = Coordinators.fold(decided, known=known_topic, now=now).complete
    names = {(record.transactional_id, record.partition) for record in records}
    astray = any(partition_for(name, coordinator_count(place)) != partition for name, partition in names)
    coordinators.missing = missing_coordinators(place, scan.problems, astray=astray)
    coordinators.astray = frozenset(
        (record.partition, record.transactional_id)
        for record in coordinators.last.values()
        if partition_for(record.transactional_id, coordinator_count(place)) != record.partition
    )
    coordinators.shortened = shortened_coordinators(tree)
    return coordinators


def known_around(place: Place) -> Known:
    """What is known around the coordinators' log."""
    shortened = shortened_coordinators(place.tree)
    if place.cluster is None or place.cluster.unreadable or not place.metadata_is_final:
        return Known(shortened)
    topics = place.cluster.image.topics.values()
    return Known(shortened, {topic.name: (len(topic.partitions), place.created.get(topic.name, 0)) for topic in topics})


def coordinator_count(place: Place) -> int:
    """How many partitions the coordinators' log has: the metadata log knows; else as many as there seem to be."""
    known = place.cluster.partitions_of(TRANSACTION_STATE) if place.cluster is not None else None
    there = {file.partition for file in place.tree.of(FileKind.SEGMENT, topic=TRANSACTION_STATE)}
    return known or max(there, default=0) + 1


_ALL_IS_READ = frozenset(("bad-epoch-checkpoint", "bad-producer", "bad-timestamp", "leader-epoch-regression"))
"""What may be wrong with a segment of which every record was read."""


def missing_coordinators(place: Place, problems: Iterable[Problem], *, astray: bool) -> frozenset[int]:
    """Partitions of the coordinators' log that are not there, or cannot be read as a whole.

    `astray`: an id lies elsewhere than it would among so many partitions, so there are more; which is not known (-1).
    """
    segments = place.tree.of(FileKind.SEGMENT, topic=TRANSACTION_STATE)
    broken = {
        found.path
        for found in problems
        if (found.severity == "bad" and found.problem not in _ALL_IS_READ) or found.problem == "vanished"
    }
    damaged = {file.partition for file in segments if file.path in broken}
    absent = set(range(coordinator_count(place))) - {file.partition for file in segments}
    return frozenset(damaged | absent | ({-1} if astray else set()))


def wrong_coordinators(place: Place, coordinators: Coordinators) -> list[Problem]:
    """Where ids lie astray although it is known how many partitions there are, no broker finds them."""
    known = place.cluster is not None and place.cluster.partitions_of(TRANSACTION_STATE)
    segments = place.tree.of(FileKind.SEGMENT, topic=TRANSACTION_STATE)
    if not known or not segments or -1 not in coordinators.missing:
        return []
    first = min((partition for partition, _ in coordinators.astray), default=segments[0].partition)
    path = next(Path(file.path).parent for file in segments if file.partition == first)
    belong = [
        f"{name} belongs into {TRANSACTION_STATE}-{partition_for(name, coordinator_count(place))}"
        for partition, name in sorted(coordinators.astray)
        if partition == first
    ]
    detail = listed(belong) or "transactional ids of other partitions"
    others = len({partition for partition, _ in coordinators.astray} - {first})
    more = f"; and {counted(others, 'more partition')} like it" if others else ""
    return [problem(path, -1, "wrong-coordinator", detail + more)]


def shortened_coordinators(tree: Tree) -> frozenset[int]:
    """Partitions of the coordinators' log of whose records only the newest may be there."""
    starts = {key: start for key, start in tree.starts().items() if key[0] == TRANSACTION_STATE}
    return frozenset(key[1] for key, start in starts.items() if start > 0 or tree.cleaned.get(key, 0) > 0)


def whole_since(place: Place, oldest: int) -> int:
    """Since when, ms, the coordinators' log has every decision that was taken; `oldest` is when its oldest batch was.

    All its partitions have to be there, as many as the metadata log knows, and none may have lost a record to
    compaction or to a deletion of records. What was decided before its oldest batch may have been in a log that was
    deleted, and made again.
    """
    known = place.cluster.partitions_of(TRANSACTION_STATE) if place.cluster is not None else None
    there = {file.partition for file in place.tree.of(FileKind.SEGMENT, topic=TRANSACTION_STATE)}
    is_whole = known is not None and there >= set(range(known)) and not shortened_coordinators(place.tree)
    return oldest if is_whole and oldest >= 0 else NEVER_WHOLE


def ended_meanwhile(row: Mapping[str, Any], tree: Tree) -> bool:
    """Whether the marker of an open transaction has come since its partition was read."""
    here = Path(row["path"]).parent
    before = segments_of(row, tree)
    now = find_files([here]).of(FileKind.SEGMENT)
    if now == before:
        return False
    following = [*(file.base_offset for file in now[1:]), 1 << 63]
    behind = [file for file, end in zip(now, following, strict=True) if end > row["last_offset"]]
    for chunk in scan_segments(behind, Scan()):
        columns = chunk.columns
        markers = (columns["marker_type"] >= 0) & (columns["producer_id"] == row["producer_id"])
        if (markers & (columns["base_offset"] > row["last_offset"])).any():
            return True
    return False


def segments_of(row: Mapping[str, Any], tree: Tree) -> list[LogFile]:
    """The segments of the partition that a row is of."""
    key = row["topic"], row["partition"]
    return [file for file in tree.of(FileKind.SEGMENT) if (file.topic, file.partition) == key]


def is_proven(row: Mapping[str, Any], tree: Tree, evidence: Evidence, coordinators: Coordinators) -> bool:
    """Whether an open transaction that no coordinator has under way hangs: see `Proof.hangs`."""
    of = coordinators.partition_of(row["producer_id"])
    return evidence.proof.hangs(row, of, segments_of(row, tree), coordinators.longest_ms)


def removed_meanwhile(jumps: pd.DataFrame, audited: Iterable[PartitionDir]) -> list[Problem]:
    """Whole segments that are missing between others in the directory of a broker that had not closed it.

    Its broker may have removed all segments up to there while they were copied: those before had been copied by then.
    """
    running = {one.path for one in audited if one.log_dir.is_running}
    found = []
    for row in jumps.to_dict("records"):
        begins = row["position"] == 0 and row["base_offset"] == row["segment"]
        if begins and row["base_offset"] > row["previous_offset"] + 1 and str(Path(row["path"]).parent) in running:
            detail = (
                f"no segment has the offsets from {row['previous_offset'] + 1} to {row['base_offset'] - 1}: its broker "
                "was running, and may have deleted them, with those before, while they were copied"
            )
            found.append(problem(row["path"], 0, "vanished", detail, severity="info", offset=row["base_offset"]))
    return found


def _without_vanished(found: list[dict[str, Any]], scan: Scan) -> None:
    """Of a partition of which a segment was deleted while it was read, or copied, nothing that is told is proven."""
    gone = [one.path for one in scan.problems if one.problem == "vanished" and one.path.endswith(FileKind.SEGMENT)]
    places = {str(Path(path).parent) for path in gone}
    partitions = {Path(path).parent.name for path in gone}
    if not gone:
        return
    why = "; a segment of the partition was deleted while it was read, or copied: audit again"
    for row in found:
        if row["severity"] == Severity.BAD and f"{row['topic']}-{row['partition']}" in partitions:
            row["severity"] = str(Severity.INFO)
            row["detail"] += why
    scan.problems = [
        replace(one, severity="info", detail=one.detail + why)
        if one.severity == "bad" and (str(Path(one.path).parent) in places or one.path in places)
        else one
        for one in scan.problems
    ]


def _as_written(result: Result) -> None:
    """With the paths of stores as users write them."""
    assert result.incidents is not None
    for frame, names in ((result.anomalies, ("path", "detail")), (result.incidents, ("path", "what", "blocks", "run"))):
        for name in names:
            frame[name] = [files.place_of(text) for text in frame[name]]
    result.problems = [
        replace(one, path=files.place_of(one.path), detail=files.place_of(one.detail)) for one in result.problems
    ]


def conclude(
    place: Place, scan: Scan, evidence: Evidence, coordinators: Coordinators, *, not_after: int | None
) -> Result:
    """The verdicts, and their causes."""
    tree = place.tree
    opened = open_transactions(evidence.txns, coordinators)
    ended = [row["status"] == "hanging" and ended_meanwhile(row, tree) for row in opened.to_dict("records")]
    opened = opened[[not one for one in ended]].reset_index(drop=True)
    statuses = [
        "unproven" if row["status"] == "hanging" and not is_proven(row, tree, evidence, coordinators) else row["status"]
        for row in opened.to_dict("records")
    ]
    opened["status"] = pd.Series(statuses, opened.index, dtype="object")
    is_odd = suspicious(evidence.txns, coordinators.level_2, coordinators.whole_since)
    odd = evidence.txns[is_odd & (evidence.txns["outcome"] != "open")]
    late = evidence.txns[(evidence.txns["outcome"] == "open") & (evidence.txns["lowest_epoch_step"] < 0)]
    facts = LogFacts(tree.starts(), tree.cleaned, evidence.proof, place.metadata_is_final)
    found = judge(
        opened=opened,
        odd=pd.concat([odd, late]),
        breaks=evidence.breaks,
        allowed=evidence.allowed,
        jumps=evidence.jumps,
        lacking=evidence.lacking,
        coordinators=coordinators,
        facts=facts,
    )
    # What ends before its checkpoints because the rest was left out has lost nothing.
    audited = [one for one in place.audited() if one.key not in place.cut]
    found += split_anomalies(evidence.split, coordinators)
    found += shape_anomalies(audited, evidence.ends, place.cluster, place.remote)
    ends = {one.path: evidence.ends.get(one.key, -1) for one in audited}
    scan.problems += place.around.problems
    scan.problems += shape_problems(place.around, ends, place.cluster, place.topics)
    scan.problems += wrong_coordinators(place, coordinators)
    scan.problems += same_batches(audited, evidence.digests)
    scan.problems += unknown_producers(audited, evidence.producers, place.cluster)
    scan.problems += evidence.groups.problems
    scan.problems += offsets_behind_end(evidence.groups, evidence.ends, audited)
    if not_after is not None:
        scan.problems += future_times(audited, evidence.newest, not_after)
    times = {
        (row["topic"], row["partition"], row["first_offset"]): row["first_timestamp"]
        for row in opened.to_dict("records")
    }
    decided = {
        (row["topic"], row["partition"], row["path"], row["position"]): row["timestamp"]
        for row in evidence.lacking.to_dict("records")
    }
    scan.problems = while_running(scan.problems, place.around.replicas, place.everything.of(FileKind.SEGMENT))
    scan.problems += removed_meanwhile(evidence.jumps, audited)
    _without_vanished(found, scan)
    findings = Findings(
        found,
        scan.problems,
        evidence.jumps,
        evidence.ends,
        times,
        evidence.newest,
        decided,
        evidence.exchanged,
        tuple(one.path for one in place.around.log_dirs.values() if one.is_running),
    )
    incidents = find_incidents(findings)
    result = Result("logs", anomalies_frame(found), scan.problems, files=len(tree.files), bytes=scan.bytes_read)
    result.incidents = incidents_frame(incidents)
    if any(files.is_stored(one) for one in place.around.log_dirs):
        _as_written(result)
    result.incident_of = {at: number for number, one in enumerate(incidents) for at in one.problems}
    result.tables["open_txns"] = opened
    result.facts = {
        "batches": scan.batches,
        **({} if place.memory is None else {"bytes_remembered": scan.bytes_remembered}),
        "checksums_compared": scan.check_crc,
        "open_transactions": len(opened),
        "newest_ms": max(
            (one for one in evidence.newest.values() if not_after is None or one <= not_after), default=-1
        ),
        "coordinator_log_read": coordinators.known,
        **({"in_store": place.remote.totals()} if place.remote.is_noted else {}),
        "transaction_version": [{"since": one.timestamp, "level": one.level} for one in place.levels.changes],
    }
    return result
