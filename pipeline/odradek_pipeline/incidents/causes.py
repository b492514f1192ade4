"""One incident per cause, with what follows from it below.

A missing segment leaves transactions without markers, sequences with gaps and orphaned markers; each of these is found
alone, and none of them is what went wrong. Causes are looked for in a fixed order, the ones that explain most first:
each claims the findings that follow from it, and what nobody has claimed at the end is a cause of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import pandas as pd

from odradek_pipeline.incidents.search import (
    FAR,
    INCIDENT_COLUMNS,
    Findings,
    Incident,
    Partition,
    Row,
    Search,
    at_partition,
    incidents_frame,
    key_of,
    of_problem,
)
from odradek_pipeline.logs.layout import TRANSACTION_STATE
from odradek_pipeline.transactions.steps import OF_STATES
from odradek_pipeline.wording import counted

__all__ = ["INCIDENT_COLUMNS", "Findings", "find_incidents", "incidents_frame"]

_DAMAGE = frozenset(
    (
        "broken",
        "half-written",
        "unknown-magic",
        "unreadable",
        "bad-crc",
        "bad-count",
        "bad-producer",
        "bad-records",
        "bad-timestamp",
    )
)
_READABLE = frozenset(("bad-count", "bad-crc", "bad-records", "bad-timestamp"))
"""Damage that leaves the headers of batches what they are."""


def find_incidents(findings: Findings) -> list[Incident]:
    """The causes of everything that is bad."""
    search = Search(findings)
    for rule in _RULES:
        rule(search)
    return _grouped(search)


_OF_PRODUCERS = frozenset(
    (
        "producer-epoch-regression",
        "seq-duplicate",
        "seq-first-not-zero",
        "seq-gap",
        "txn-double-marker",
        "txn-marker-epoch-regression",
        "txn-mixed",
        "txn-orphan-marker",
        "undecided-marker",
        "wrong-outcome",
    )
)
"""Incidents of one producer in one partition: where several have the same there, something has happened to it."""
_OF_DIRECTORIES = frozenset(
    (
        "bad-epoch-checkpoint",
        "bad-partition-metadata",
        "leads-nowhere",
        "missing-partition",
        "replica-differs",
        "replica-has-more",
        "replica-lacks",
        "replica-lost-tail",
        "unreadable",
        "wrong-topic-id",
    )
)
"""Incidents of one partition: where several of a log directory have the same, something has happened to that."""
PARTITIONS_MIN = 3
NAMED_MAX = 3


def _grouped(search: Search) -> list[Incident]:
    """Several of one kind that are of one partition, or of one directory, are told as one."""
    kinds: dict[tuple[str, ...], list[Incident]] = {}
    for one in search.incidents:
        place = f"{one.row.get('topic', '')}-{one.row.get('partition', -1)}"
        key: tuple[str, ...] = (one.name, str(id(one)))
        if one.name in _OF_PRODUCERS:
            key = (one.name, place)
        elif one.name in _OF_DIRECTORIES and key_of(str(one.row.get("path", "")))[1] >= 0:
            key = (one.name, _log_dir(str(one.row["path"])))
        kinds.setdefault(key, []).append(one)
    found: list[Incident] = []
    for (name, *_), of in kinds.items():
        if name in _OF_DIRECTORIES and len(of) < PARTITIONS_MIN:
            found += of
            continue
        first = of[0]
        if len(of) > 1:
            first.anomalies = sorted(at for one in of for at in one.anomalies)
            first.problems = sorted(at for one in of for at in one.problems)
            search.say(first, more=_more(name, of[1:]))
        found.append(first)
    places = {id(one): place for place, one in enumerate(search.incidents)}
    found.sort(key=lambda one: places[id(one)])
    for number, one in enumerate(found):
        for at in one.anomalies:
            search.findings.anomalies[at]["incident"] = number
    return found


def _more(name: str, others: Sequence[Incident]) -> str:
    if name in _OF_PRODUCERS:
        named = [f"producer {one.row.get('producer_id', -1)}" for one in others]
        what = counted(len(others), "more producer") + " of this partition"
    else:
        named = [f"{one.row.get('topic', '')}-{one.row.get('partition', -1)}" for one in others]
        what = counted(len(others), "more partition") + " of this directory"
    rest = ", …" if len(named) > NAMED_MAX else ""
    return f"; so of {what} ({', '.join(named[:NAMED_MAX])}{rest})"


def _log_dir(path: str) -> str:
    """The log directory of a partition's directory, or of a file in one."""
    one = PurePath(path)
    return str(one.parent if key_of(path) == _named(one.name) else one.parent.parent)


def _named(name: str) -> Partition:
    topic, _, number = name.rpartition("-")
    return (topic, int(number)) if topic and number.isdigit() else ("", -1)


# ---------------------------------------------------------------------- the rules, in their order


def _damage(search: Search) -> None:
    """Bytes of a segment that are no batches, or not those that were written."""
    lost = {(row["topic"], row["partition"]) for row in search.findings.anomalies if row["anomaly"] == "lost-tail"}
    by_path: dict[str, list[int]] = {}
    for at in search.problems(_DAMAGE, lambda one: one.path.endswith(".log")):
        one = search.findings.problems[at]
        by_path.setdefault(one.path, []).append(at)
    for path, problems in by_path.items():
        names = {search.findings.problems[at].problem for at in problems}
        # A torn tail is part of the lost one, and so is the last batch of what zeros were written over.
        if key_of(path) in lost and (names == {"half-written"} or (len(problems) == 1 and names <= _READABLE)):
            continue
        key = key_of(path)
        first = search.findings.problems[problems[0]]
        hides = {search.findings.problems[at].problem for at in problems} - _READABLE
        base = int(stem) if (stem := PurePath(path).stem).isdigit() else 0
        claimed = search.consequences(key, base, FAR) if hides else search.steps(key)
        claimed += search.anomalies(["lost-tail"], at_partition(key)) if hides else []
        same = [at for at in search.open if search.findings.problems[at].path == path]
        where = of_problem(first) | {"offset": -1, "end_offset": -1, "problem": first.problem}
        beside = [*(search.beside(key) if claimed else ()), *(search.checkpoints(key) if hides else ())]
        search.add("damaged-segment", claimed, [*same, *beside], **where)
        jumps = search.findings.jumps
        search.findings.jumps = jumps[~_explained_by(jumps, path, key, base)] if hides else jumps


def _explained_by(jumps: pd.DataFrame, path: str, key: Partition, base: int) -> pd.Series[bool]:
    """Jumps in a damaged segment, and the one behind it: what was at its end cannot be read."""
    here = (jumps["topic"] == key[0]) & (jumps["partition"] == key[1]) & (jumps["position"] == 0)
    behind = jumps[here & (jumps["segment"] > base) & (jumps["previous_offset"] >= base - 1)]
    following = behind.sort_values("segment").index[:1]
    return (jumps["path"] == path) | jumps.index.isin(following)


def _tails(search: Search) -> None:
    """The log ends before its high watermark."""
    for at in search.anomalies(["lost-tail"]):
        row = search.findings.anomalies[at]
        key = (row["topic"], row["partition"])
        torn = search.problems(["broken", "half-written", *_READABLE], lambda one, key=key: key_of(one.path) == key)  # type: ignore[misc]
        follows = search.anomalies(["txn-hanging", "txn-without-marker"], at_partition(key))
        search.add("lost-tail", [at, *follows], [*torn, *search.beside(key)])


def _exchanged(search: Search) -> None:
    """What was decided for a partition stands in another one of its topic: somebody has put directories into each
    other's place."""
    for key, other in search.findings.exchanged.items():
        of = [
            "txn-hanging",
            "txn-without-marker",
            "txn-wrong-outcome",
            "txn-orphan-marker",
            "txn-double-marker",
            "txn-undecided-marker",
        ]
        claimed = search.anomalies(of, at_partition(key))
        if claimed:
            without = ("txn-hanging", "txn-without-marker")
            lacks = len([at for at in claimed if search.findings.anomalies[at]["anomaly"] in without])
            detail = f"the markers of {lacks} decisions for it are in {other[0]}-{other[1]}"
            where = {"offset": 0, "end_offset": -1, "producer_id": -1, "producer_epoch": -1, "transactional_id": ""}
            claimed += search.anomalies(of, at_partition(other))
            search.add("wrong-partition", claimed, [*search.beside(key), *search.beside(other)], **where, detail=detail)


def _misnamed(search: Search) -> None:
    """A segment is named after the offset that was due when it was made: none of its batches begins before."""
    for key, rows in _by_partition(search.findings.jumps):
        follows = rows["base_offset"] == rows["previous_offset"] + 1
        for jump in rows[follows].to_dict("records"):
            of = search.anomalies(["misnamed-segment"], lambda row, path=jump["path"]: row["path"] == path)  # type: ignore[misc]
            detail = f"its name says offset {jump['segment']}, its first batch {jump['base_offset']}"
            where = _place(jump, int(jump["base_offset"]), -1) | {"detail": detail}
            search.add("misnamed-segment", of, [*search.beside(key), *search.checkpoints(key)], **where)
        search.findings.jumps = search.findings.jumps.drop(index=list(rows.index[follows]))
        rows = rows[~follows]
        for jump in rows[(rows["position"] == 0) & (rows["base_offset"] < rows["segment"])].to_dict("records"):
            start = min(int(jump["base_offset"]), int(jump["previous_offset"]) + 1)
            after = rows[(rows["segment"] > jump["segment"]) & (rows["position"] == 0)]
            end = int(after["base_offset"].iloc[0]) if len(after) else FAR
            detail = f"its name says offset {jump['segment']}, its first batch {jump['base_offset']}"
            where = _place(jump, start, -1) | {"detail": detail}
            beside = [*search.beside(key), *search.checkpoints(key)]
            gone = search.anomalies(["missing-segment"], _between(key, start, int(jump["segment"])))
            search.add("misnamed-segment", [*gone, *search.consequences(key, start, end)], beside, **where)
            explained = (search.findings.jumps["path"] == jump["path"]) | search.findings.jumps.index.isin(
                after.index[:1]
            )
            search.findings.jumps = search.findings.jumps[~explained]


def _between(key: Partition, start: int, end: int) -> Callable[[Row], bool]:
    """Whether a finding is of these offsets: what a name says begins later seems to be missing before."""
    return lambda row: at_partition(key)(row) and start <= row["offset"] and row["end_offset"] <= end


def _misplaced(search: Search) -> None:
    """One batch whose offset is another one than it had: forward to it and straight back, or the other way round.

    The offset of a batch is outside of its checksum, so that leaders can put it in.
    """
    for key, rows in _by_partition(search.findings.jumps):
        steps = (rows["base_offset"] - rows["previous_offset"] - 1).tolist()
        at = 0
        while at + 1 < len(steps):
            one, after = rows.iloc[at], rows.iloc[at + 1]
            follows = after["previous_offset"] == one["last_offset"]
            if not follows or steps[at] + steps[at + 1]:
                at += 1
                continue
            due = int(one["previous_offset"]) + 1
            detail = f"its batch says offset {one['base_offset']}, where {due} was due"
            where = _place(one.to_dict(), due, int(after["base_offset"])) | {"problem": "bad-offset", "detail": detail}
            reach = due, int(one["base_offset"]), int(one["last_offset"]) + 1, int(after["base_offset"])
            claimed = search.consequences(key, min(reach), max(reach))
            search.add("damaged-segment", claimed, [*search.beside(key), *search.checkpoints(key)], **where)
            search.findings.jumps = search.findings.jumps.drop(index=list(rows.index[at : at + 2]))
            at += 2


def _swapped(search: Search) -> None:
    """Batches that changed places: forward, back, and forward to where it should have gone on; nothing is missing."""
    for key, rows in _by_partition(search.findings.jumps):
        steps = (rows["base_offset"] - rows["previous_offset"] - 1).tolist()
        at = 0
        while at < len(steps):
            end = _permutation(steps, at)
            if end is None:
                at += 1
                continue
            of = rows.iloc[at:end]
            last = int(max(of["last_offset"].max(), of["previous_offset"].max())) + 1
            first = of.iloc[0]
            start = int(first["previous_offset"]) + 1
            where = _place(first.to_dict(), start, last)
            search.add("swapped-batches", search.consequences(key, start, last), search.beside(key), **where)
            search.findings.jumps = search.findings.jumps.drop(index=list(of.index))
            at = end


def _permutation(steps: Sequence[int], at: int) -> int | None:
    """Where a run of jumps that begins forward has come back to where it would have been; at the end of the log the
    last step forward is missing."""
    total, back = 0, False
    if steps[at] <= 0:
        return None
    for end in range(at, len(steps)):
        total += steps[end]
        back = back or steps[end] < 0
        if total == 0 and back:
            return end + 1
    return at + 2 if len(steps) == at + 2 and back and total < 0 else None


def _gaps(search: Search) -> None:
    """Offsets that are missing: a whole segment, or batches inside of one."""
    for at in search.anomalies(["missing-segment"]):
        row = search.findings.anomalies[at]
        key = (row["topic"], row["partition"])
        follows = search.consequences(key, row["offset"], row["end_offset"])
        search.add("missing-segment", [at, *follows, *_unmarked(search, key)], search.beside(key))
    for key, rows in _by_partition(search.findings.jumps):
        for jump in rows.to_dict("records"):
            start, end = int(jump["previous_offset"]) + 1, int(jump["base_offset"])
            if end <= start:
                continue
            name = "missing-segment" if jump["position"] == 0 else "lost-batches"
            follows = [*search.consequences(key, start, end), *_unmarked(search, key)]
            search.add(name, follows, search.beside(key), **_place(jump, start, end))


def _unmarked(search: Search, key: Partition) -> list[int]:
    """Decisions whose marker is not in the partition: it may have been in what is missing."""
    return search.anomalies(["txn-without-marker"], at_partition(key))


def _repeated(search: Search) -> None:
    """Batches that are there twice."""
    for key, rows in _by_partition(search.findings.jumps):
        for jump in rows.to_dict("records"):
            start, end = int(jump["base_offset"]), int(jump["previous_offset"])
            if start > end:
                continue
            search.add(
                "repeated-batches",
                search.consequences(key, start, end + 1),
                search.beside(key),
                **_place(jump, start, end + 1),
            )


def _older(search: Search) -> None:
    """A log that ends before what coordinators have noted as complete in it: somebody put an older copy into its place,
    with checkpoints that do not say so."""
    lost: dict[Partition, list[int]] = {}
    for at in search.anomalies(["txn-without-marker"]):
        row = search.findings.anomalies[at]
        key = (row["topic"], row["partition"])
        if search.findings.decided.get((*key, row["path"], row["position"]), -1) > search.findings.newest.get(key, FAR):
            lost.setdefault(key, []).append(at)
    for key, follows in lost.items():
        first = search.findings.anomalies[follows[0]]
        end = search.findings.ends.get(key, -1) + 1
        where = {"offset": end, "end_offset": -1, "producer_id": -1, "producer_epoch": -1, "transactional_id": ""}
        detail = f"it ends at offset {end}, before {len(follows)} that are complete; of the first: {first['detail']}"
        since = search.findings.newest[key]
        search.add("lost-transactions", follows, search.beside(key), **where, detail=detail, since=since)


def _by_partition(jumps: pd.DataFrame) -> list[tuple[Partition, pd.DataFrame]]:
    if jumps.empty:
        return []
    ordered = jumps.sort_values(["topic", "partition", "segment", "position"], kind="stable")
    return [((str(key[0]), int(key[1])), rows) for key, rows in ordered.groupby(["topic", "partition"], sort=False)]


def _place(jump: Mapping[Any, Any], start: int, end: int) -> Row:
    keys = ("topic", "partition", "path", "position")
    of_nobody = {"producer_id": -1, "producer_epoch": -1, "transactional_id": ""}
    since = int(jump["max_timestamp"]) if jump.get("max_timestamp", -1) else -1
    return {key: jump[key] for key in keys} | {"offset": start, "end_offset": end, "since": since} | of_nobody


def _told(search: Search, key: Partition) -> Incident | None:
    """What is told of a partition already."""
    return next((one for one in search.incidents if (one.row.get("topic"), one.row.get("partition")) == key), None)


def _outcomes(search: Search) -> None:
    """Markers that say the opposite of the decision, or of each other."""
    for at in search.anomalies(["txn-undecided-marker"]):
        row = search.findings.anomalies[at]
        told = _told(search, (row["topic"], row["partition"]))
        if told is not None:  # batches that are there twice, or of another partition
            told.anomalies.append(at)
            row["incident"] = search.incidents.index(told)
            search.free.discard(at)
    _each(search, "txn-wrong-outcome", "wrong-outcome", ("txn-wrong-outcome", "txn-split-outcome", "txn-double-marker"))
    _each(search, "txn-undecided-marker", "undecided-marker", ("txn-undecided-marker", "txn-split-outcome"))
    _each(search, "txn-split-outcome", "split-outcome", ("txn-split-outcome",))


def _each(search: Search, anomaly: str, name: str, claims: Sequence[str]) -> None:
    """One incident for each transaction that has this anomaly, in all its partitions."""
    while found := search.anomalies([anomaly]):
        first = search.findings.anomalies[found[0]]
        key = (first["topic"], first["partition"])
        search.add(name, [found[0], *search.anomalies(claims, _same_transaction(first))], search.beside(key))


def _same_transaction(first: Row) -> Callable[[Row], bool]:
    return lambda row: row["producer_id"] == first["producer_id"] and row["producer_epoch"] == first["producer_epoch"]


def _markers(search: Search) -> None:
    """Markers that cannot be read: whatever they should have ended looks open."""
    for at in search.problems(["odd-marker"]):
        if at in search.open:
            one = search.findings.problems[at]
            key = key_of(one.path)
            alike = search.problems(["odd-marker"], lambda other, one=one: other.path == one.path)  # type: ignore[misc]
            search.add(
                "odd-marker",
                search.anomalies(["txn-hanging", "txn-without-marker", "txn-mixed"], at_partition(key)),
                [*alike, *search.beside(key)],
                **of_problem(one),
            )


def _epochs(search: Search) -> None:
    """Epochs and sequences of one producer: the first that is wrong, and what is wrong because of it."""
    for name, claims in _PRODUCERS.items():
        while found := search.anomalies([name]):
            first = search.findings.anomalies[found[0]]

            def same(row: Row, first: Row = first) -> bool:
                return all(row[key] == first[key] for key in ("topic", "partition", "producer_id"))

            key = (first["topic"], first["partition"])
            search.add(name, [found[0], *search.anomalies([name, *claims], same)], search.beside(key))


_SEQUENCES = ("seq-gap", "seq-duplicate", "seq-first-not-zero")
_PRODUCERS: dict[str, tuple[str, ...]] = {
    "txn-epoch-not-bumped": ("txn-hanging", "txn-without-marker"),
    "txn-marker-epoch-regression": (
        "txn-hanging",
        "txn-without-marker",
        "txn-orphan-marker",
        "txn-epoch-not-bumped",
        *_SEQUENCES,
    ),
    "producer-epoch-regression": _SEQUENCES,
    "txn-mixed": (),
    **dict.fromkeys(_SEQUENCES, _SEQUENCES),
}
"""By the anomaly that is the cause, what follows from it."""


def _states(search: Search) -> None:
    """Records that no coordinator writes: whatever is held against them says something else, too."""
    rows = search.findings.anomalies
    for at in search.problems(["wrong-coordinator"]):
        one = search.findings.problems[at]
        search.add(one.problem, search.anomalies(OF_STATES, _of_coordinators), [at], **of_problem(one))
    while found := search.anomalies(OF_STATES, _of_coordinators):
        first = min(found, key=lambda at: (OF_STATES.index(rows[at]["anomaly"]), at))

        def same(row: Row, producer_id: int = rows[first]["producer_id"]) -> bool:
            return bool(row["producer_id"] == producer_id)

        claimed = search.anomalies([*OF_STATES, *_OF_DECISIONS], same)
        search.add(str(rows[first]["anomaly"]), [first, *claimed])


def _of_coordinators(row: Row) -> bool:
    return bool(row["topic"] == TRANSACTION_STATE)


_OF_DECISIONS = (
    "stuck-prepare",
    "txn-double-marker",
    "txn-epoch-not-bumped",
    "txn-hanging",
    "txn-orphan-marker",
    "txn-timeout-exceeded",
    "txn-undecided-marker",
    "txn-without-marker",
    "txn-wrong-outcome",
)
"""What markers and transactions are told of by the coordinators' records."""


def _stuck(search: Search) -> None:
    """Decisions whose markers never came."""
    for at in search.anomalies(["stuck-prepare"]):
        first = search.findings.anomalies[at]
        follows = search.anomalies(
            ["txn-hanging", "txn-timeout-exceeded", "txn-without-marker"],
            lambda row, first=first: row["producer_id"] == first["producer_id"],  # type: ignore[misc]
        )
        search.add("stuck-prepare", [at, *follows])


_WITHOUT = ("txn-hanging", "txn-without-marker")


def _hanging(search: Search) -> None:
    """One incident for each transaction, whatever the number of its partitions."""
    while found := search.anomalies(["txn-hanging"]):
        first = search.findings.anomalies[found[0]]
        key = (first["topic"], first["partition"], first["offset"])
        since = search.findings.times.get(key, -1)
        search.add(
            "hanging-transaction", [found[0], *search.anomalies(_WITHOUT, _same_transaction(first))], since=since
        )


def _unknown(search: Search) -> None:
    """A producer id that nobody was given, where something else is told of the partition already."""
    for at in search.problems(["unknown-producer", "leads-nowhere"]):
        key = key_of(search.findings.problems[at].path)
        told = _told(search, key)
        if told is not None:
            told.problems.append(at)
            search.open.discard(at)


def _rest(search: Search) -> None:
    """What is a cause of its own: one incident for each kind and producer, or each kind and partition."""
    while search.free:
        first = search.findings.anomalies[min(search.free)]
        alike = search.anomalies(
            [first["anomaly"]],
            lambda row, first=first: all(row[key] == first[key] for key in ("topic", "partition", "producer_id")),  # type: ignore[misc]
        )
        search.add(str(first["anomaly"]), alike)
    while search.open:
        one = search.findings.problems[min(search.open)]
        names = [one.problem, *_FOLLOWS.get(one.problem, ())]
        alike = search.problems(names, lambda other, one=one: _is_beside(other.path, one.path))  # type: ignore[misc]
        more = len({search.findings.problems[at].path for at in alike}) - 1
        where = of_problem(one)
        where["detail"] += f"; and {counted(more, 'more file')} of this partition like it" if more else ""
        search.add(one.problem, [], alike, **where)


_FOLLOWS = {"leads-nowhere": ("missing-partition",)}


def _is_beside(path: str, other: str) -> bool:
    """Whether two files are the same, or two of one replica of a partition; two partitions of a directory are not."""
    parent = PurePath(path).parent
    return path == other or (parent == PurePath(other).parent and _named(parent.name)[1] >= 0)


_RULES: tuple[Callable[[Search], None], ...] = (
    _damage,
    _tails,
    _exchanged,
    _misnamed,
    _misplaced,
    _swapped,
    _gaps,
    _repeated,
    _older,
    _states,
    _outcomes,
    _stuck,
    _markers,
    _epochs,
    _hanging,
    _unknown,
    _rest,
)
