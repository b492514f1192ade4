"""What is said of an incident: one sentence on what is wrong, what it blocks, and what to run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["SENTENCES", "WARNINGS", "words_of"]

Partition = tuple[str, int]

_ABORT = (
    "kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic {topic} --partition {partition} "
    "--start-offset {offset}"
)
_DESCRIBE = "kafka-transactions.sh --bootstrap-server HOST:PORT describe --transactional-id {transactional_id}"
_COPY_AGAIN = (
    "Where another replica is whole: stop the broker, remove the directory of {topic}-{partition}, start it; it is "
    "copied from the leader. Else restore it from a backup."
)
_REBUILD = "Stop the broker, remove {path}, start it: it is built again from the segment."
_AGAIN = (
    "Remove nothing yet: while a broker runs, its files are read or copied at different times. Stop it and audit "
    "{path} again, or a snapshot of its volume."
)
"""In place of what destroys, where files are held against each other that may be of different times."""
_LATER = "When this replica becomes the leader, consumers read something else than before."

_WHO = "kafka-transactions.sh --bootstrap-server HOST:PORT describe-producers --topic {topic} --partition {partition}"
_COMPARE = (
    "Compare with another replica: audit the directories of all brokers together. Who else has written there: " + _WHO
)

SENTENCES: dict[str, tuple[str, str, str]] = {
    "lost-tail": (
        "{topic}-{partition} has lost {range}, acknowledged before.",
        "Consumers that were further on start again from where the log ends, and see other records at these offsets.",
        _COPY_AGAIN,
    ),
    "lost-transactions": (
        "{topic}-{partition} is older than what its coordinators know: {detail}.",
        "Transactions that were committed are visible in part; consumers further on start again from its end.",
        _COPY_AGAIN,
    ),
    "txn-mixed": (
        "{topic}-{partition} has a batch of producer {producer_id}{named} at offset {offset}, outside of transactions.",
        "read_committed consumers are shown these records, also where their transaction was aborted.",
        _DESCRIBE,
    ),
    "missing-segment": (
        "{topic}-{partition} lacks the segments that held {range}.",
        "Whoever reads there skips these records; transactions whose markers were in them look open.",
        _COPY_AGAIN,
    ),
    "lost-batches": (
        "{topic}-{partition} lacks {range}, in the middle of a segment.",
        "Whoever reads there skips these records; if one was a marker, its transaction stays open.",
        _COPY_AGAIN,
    ),
    "swapped-batches": (
        "{topic}-{partition} has {range} in another order than they were written.",
        "Consumers that ask for an offset in between get others, or none.",
        _COPY_AGAIN,
    ),
    "repeated-batches": (
        "{topic}-{partition} has {range} more than once.",
        "Consumers may read them twice.",
        _COPY_AGAIN,
    ),
    "damaged-segment": (
        "{path} is damaged at position {position}: {detail} ({problem}).",
        "Brokers and consumers stop with CORRUPT_MESSAGE there, or skip what follows.",
        _COPY_AGAIN,
    ),
    "wrong-outcome": (
        "{topic}-{partition} has a marker at offset {offset} that contradicts its coordinator: {detail}.",
        "Records that were committed are hidden from read_committed consumers, or aborted ones are shown.",
        "No command mends it. " + _DESCRIBE,
    ),
    "undecided-marker": (
        "{topic}-{partition} has a commit marker at offset {offset} that no coordinator decided: {detail}.",
        "read_committed consumers are shown records of a transaction that may be aborted elsewhere.",
        "No command mends it. " + _DESCRIBE,
    ),
    "split-outcome": (
        "One transaction of producer {producer_id} was committed in some partitions and aborted in others: {detail}.",
        "It is visible in part: it was not atomic.",
        "No command mends it. " + _DESCRIBE,
    ),
    "stuck-prepare": (
        "{transactional_id} was decided and its markers never came: {detail}.",
        "read_committed consumers of these partitions stop there; its producer gets CONCURRENT_TRANSACTIONS.",
        "Restart or move the leader of __transaction_state-{partition}, which sends them again. " + _DESCRIBE,
    ),
    "hanging-transaction": (
        "A transaction of producer {producer_id}{named} hangs in {topic}-{partition} since offset {offset}: {detail}.",
        "read_committed consumers of {topic}-{partition} stop at offset {offset}{earlier}; {behind} behind it.",
        _ABORT,
    ),
    "txn-without-marker": (
        "{topic}-{partition} lacks the marker of a transaction of {transactional_id}: {detail}.",
        "Nothing of it is open there, so no consumer waits; what it wrote there may be gone.",
        _DESCRIBE + "; audit the directories of all brokers together: another replica may have both.",
    ),
    "lso-stall": (
        "The last stable offset of {topic}-{partition} stays at {offset}: {detail}.",
        "read_committed consumers of {topic}-{partition} wait there; {behind} behind it.",
        "",
    ),
    "bad-index": ("{path} lies: {detail}.", "Fetches from these offsets begin at a wrong place.", _REBUILD),
    "bad-txn-index": (
        "{path} lies: {detail}.",
        "read_committed consumers may be shown aborted records, or miss committed ones.",
        _REBUILD,
    ),
    "bad-snapshot": (
        "{path} lies: {detail}.",
        "After a restart the broker refuses good batches of this producer, or takes duplicates.",
        _REBUILD,
    ),
    "replica-lacks": ("{path} lacks what another replica has: {detail}.", _LATER, _COPY_AGAIN),
    "replica-has-more": ("{path} lacks what another replica has: {detail}.", _LATER, _COPY_AGAIN),
    "replica-differs": ("{path} is no copy of its leader: {detail}.", _LATER, _COPY_AGAIN),
    "replica-lost-tail": ("{path} has lost its end: {detail}.", _LATER, _COPY_AGAIN),
    "txn-timeout-exceeded": (
        "{transactional_id} is under way far beyond its timeout: {detail}.",
        "read_committed consumers of its partitions stop at its first record.",
        "Restart or move the leader of __transaction_state-{partition}, which aborts it. " + _DESCRIBE,
    ),
    "txn-epoch-not-bumped": (
        "{topic}-{partition}, offset {offset}: {detail}.",
        "Nothing yet; a late batch of this transaction would be taken for the next one.",
        _DESCRIBE,
    ),
    "txn-level-not-finalized": (
        "{transactional_id} worked at a level that the cluster did not have: {detail}.",
        "Brokers that do not know the level yet take its epochs for those of another transaction.",
        "kafka-features.sh --bootstrap-server HOST:PORT describe",
    ),
    "bad-epoch-checkpoint": (
        "The leader epochs of {path} and those of the batches differ: {detail}.",
        "Followers and consumers that truncate by epochs may cut at a wrong place.",
        _COPY_AGAIN,
    ),
    "bad-checkpoint": (
        "{path} cannot be believed: {detail}.",
        "When the broker starts it may cut the log, or check all of it.",
        "Stop the broker, remove {path}, start it: it is written again.",
    ),
    "wrong-cluster": (
        "{path} is not of this cluster: {detail}.",
        "Nothing that was found in it says anything of this cluster.",
        "Leave the directory out, and audit it by itself.",
    ),
    "repeated-broker": (
        "One broker was given twice: {detail}.",
        "One of both is an older copy, or two brokers run under one id.",
        "Leave out the older copy; if both run, stop the one that was started last.",
    ),
    "group-epoch-regression": (
        "{path}: a group has gone back: {detail}.",
        "Its members are fenced with FENCED_MEMBER_EPOCH, or keep what others were given meanwhile.",
        "Compare with another replica: audit the directories of all brokers together.",
    ),
    "bad-assignment": (
        "{path}: a group contradicts itself: {detail}.",
        "Its coordinator may refuse the member, or load the group as something that it never was.",
        "Compare with another replica: audit the directories of all brokers together.",
    ),
    "assigned-twice": (
        "{path}: two members have the same: {detail}.",
        "Both read it, and a Kafka Streams task runs twice.",
        "Restart one of both members: its group assigns anew.",
    ),
    "share-epoch-regression": (
        "{path}: the state of a share group has gone back: {detail}.",
        "Records that were acknowledged may be delivered again.",
        "Compare with another replica: audit the directories of all brokers together.",
    ),
    "share-start-regression": (
        "{path}: a share group begins before where it had come: {detail}.",
        "Records that were acknowledged are delivered again.",
        "kafka-share-groups.sh --bootstrap-server HOST:PORT describe --all-groups --offsets",
    ),
    "bad-share-state": (
        "{path}: the state of a share group cannot be so: {detail}.",
        "Its coordinator may not load it; what it does load may deliver records twice or never.",
        "Compare with another replica: audit the directories of all brokers together.",
    ),
    "wrong-coordinator": (
        "{path} has what belongs elsewhere: {detail}.",
        "Their producers get a new producer id and fence nobody; what they left open hangs.",
        "Stop the brokers that have __transaction_state and put its partitions back where they were.",
    ),
    "bad-partition-metadata": (
        "{path} cannot be read: {detail}.",
        "The broker does not start, or takes the directory offline.",
        "Write the topic's id into it, which kafka-topics.sh --describe shows.",
    ),
    "wrong-partition": (
        "{topic}-{partition} holds another partition of its topic: {detail}.",
        "Consumers read the records of one partition in place of the other's; transactions look torn apart in both.",
        "Stop the broker and put the directories of {topic} back into each other's place, with their checkpoints.",
    ),
    "misnamed-segment": (
        "{path} is not the segment that belongs there: {detail}.",
        "Fetches by offset find other records than were written there, or none.",
        _COPY_AGAIN,
    ),
    "repeated-partition": (
        "One broker has a partition in two directories: {detail}.",
        "The broker does not start.",
        "Stop the broker, and remove the copy that is older, by the leader epochs and the end of its log.",
    ),
    "repeated-directory": (
        "Two brokers have directories of one id: {detail}.",
        "The controller takes both for one disk: replicas are said to be where they are not.",
        "Stop the broker whose disk was cloned, and remove the line directory.id from {path}: it is given another.",
    ),
    "bad-meta-properties": (
        "{path} does not say whose it is: {detail}.",
        "The broker does not start.",
        "Write it again as that of another directory of the broker, without the line directory.id.",
    ),
    "wrong-topic-id": (
        "{path} is of another topic: {detail}.",
        "The broker takes the directory for a stray one when it starts, and the replica for one that is not there.",
        _COPY_AGAIN,
    ),
    "unknown-producer": (
        "{path} has batches of somebody whom this cluster does not know: {detail}.",
        "The same id will be given out again: the next producer who has it gets OUT_OF_ORDER_SEQUENCE_NUMBER here.",
        "Find out whether the directory is of another cluster, or the metadata log was restored from a backup.",
    ),
    "odd-marker": (
        "{path} has a marker that cannot be one, at position {position}: {detail}.",
        "No transaction ends by it: read_committed consumers stop before it, or are shown aborted records.",
        _COPY_AGAIN,
    ),
    "txn-bad-transition": (
        "{transactional_id}, {topic}-{partition} at offset {offset}: {detail}.",
        "A coordinator that loads this log takes the last record for the truth, whatever was decided.",
        _DESCRIBE,
    ),
    "txn-epoch-regression": (
        "{transactional_id}, {topic}-{partition} at offset {offset}: {detail}.",
        "A producer that was fenced may go on once a coordinator loads this log.",
        _DESCRIBE,
    ),
    "txn-bad-timeout": (
        "{transactional_id}, {topic}-{partition} at offset {offset}: {detail}.",
        "Its transactions are aborted at once, or never.",
        _DESCRIBE,
    ),
    "txn-bad-times": (
        "{transactional_id}, {topic}-{partition} at offset {offset}: {detail}.",
        "Its coordinator does not abort it when its timeout is over.",
        _DESCRIBE,
    ),
    "txn-bad-producer": (
        "{transactional_id}, {topic}-{partition} at offset {offset}: {detail}.",
        "No marker ends such a transaction.",
        _DESCRIBE,
    ),
    "txn-unknown-partition": (
        "{transactional_id}, {topic}-{partition} at offset {offset}: {detail}.",
        "Its coordinator tries to write a marker there, until it is told that there is no such partition.",
        _DESCRIBE,
    ),
    "txn-shared-producer": (
        "{transactional_id} has the producer id of another: {detail}.",
        "Each fences the other, and the marker of one ends the transaction of both.",
        _DESCRIBE,
    ),
    "txn-marker-epoch-regression": (
        "{topic}-{partition} has an older epoch of producer {producer_id} at offset {offset}: {detail}.",
        "A producer that was fenced went on here: what it wrote stands between the records of its successor.",
        _DESCRIBE,
    ),
    "txn-double-marker": (
        "{topic}-{partition} has two markers that contradict each other at offset {offset}: {detail}.",
        "Consumers go by the first one; who wrote the second took the transaction for the opposite.",
        _DESCRIBE,
    ),
    "txn-orphan-marker": (
        "{topic}-{partition} has a marker at offset {offset} whose transaction has no records here: {detail}.",
        "Records of it that were here before are gone.",
        _DESCRIBE,
    ),
    "coordinator-epoch-regression": (
        "{topic}-{partition} has a marker at offset {offset} of a coordinator that was not one any more: {detail}.",
        "The transaction may have ended otherwise in other partitions.",
        _DESCRIBE,
    ),
    "producer-epoch-regression": (
        "{topic}-{partition} has a batch of an older epoch of producer {producer_id} at offset {end_offset}: {detail}.",
        "A producer that was fenced went on here; what it wrote may be there twice.",
        _WHO,
    ),
    "seq-gap": (
        "{topic}-{partition} lacks batches of producer {producer_id} before offset {end_offset}: {detail}.",
        "Records that the producer sent before these are not there; if they were acknowledged, they are lost.",
        _COMPARE,
    ),
    "seq-duplicate": (
        "{topic}-{partition} has a batch of producer {producer_id} again at offset {end_offset}: {detail}.",
        "Consumers read these records twice, although the producer is idempotent.",
        _COMPARE,
    ),
    "seq-first-not-zero": (
        "{topic}-{partition} lacks the first batches of producer {producer_id} before offset {end_offset}: {detail}.",
        "The records before these are not there; if they were acknowledged, they are lost.",
        _COMPARE,
    ),
    "offset-gap": (
        "{topic}-{partition} lacks offsets before {offset}: {detail}.",
        "Whoever reads there skips these records.",
        _COPY_AGAIN,
    ),
    "offset-regression": (
        "{topic}-{partition} goes back at offset {offset}: {detail}.",
        "Consumers read records twice, or others than were written.",
        _COPY_AGAIN,
    ),
    "leader-epoch-regression": (
        "{path} has a batch of a leader that had been replaced: {detail}.",
        "Followers and consumers that truncate by epochs may cut at a wrong place, and lose what was acknowledged.",
        _COPY_AGAIN,
    ),
    "unknown-version": (
        "{path} was written by a later version of Kafka, or is damaged: {detail}.",
        "What it says is not judged; an older broker that reads it stops, or passes it over.",
        "Audit it with a later version of this program; if no later Kafka was there, take it for damaged.",
    ),
    "unknown-record": (
        "{path} has a record that no coordinator writes: {detail}.",
        "The coordinator that loads it stops: no transactional id of this partition can begin or end a transaction.",
        _COPY_AGAIN,
    ),
    "half-written": (
        "{path} was not written to its end: {detail}.",
        "A broker that starts throws it away and reads the segments in its place.",
        _REBUILD,
    ),
    "bad-crc": (
        "{path} has other bytes than were written: {detail}.",
        "A broker that starts throws it away and reads the segments in its place, or stops.",
        _REBUILD,
    ),
    "bad-records": (
        "{path} cannot be read: {detail}.",
        "A broker that loads it stops.",
        "Restore it from another broker that has it: stop this one, put its copy there, start it.",
    ),
    "no-segment": (
        "{path} stands there without its segment: {detail}.",
        "A broker that starts removes it; if the segment was there, its records are gone.",
        _COPY_AGAIN,
    ),
    "leads-nowhere": (
        "{path} leads nowhere: {detail}.",
        "Nothing is said of what should be there; a broker that starts takes the log for another, or for a new one.",
        "Mount the disk that it points to, and audit again.",
    ),
    "unreadable": (
        "{path} could not be read: {detail}.",
        "Nothing is said of what is in it.",
        "Let the audit read it (rights, disk, mount), and audit again.",
    ),
    "missing-partition": (
        "{path} is not there: {detail}.",
        "One replica less than the cluster counts on.",
        "Start the broker: it copies the partition from its leader, if there is one.",
    ),
}
"""By incident: what is wrong, what it blocks, what to run."""

WARNINGS = frozenset(
    (
        "bad-checkpoint",
        "bad-epoch-checkpoint",
        "bad-index",
        "bad-meta-properties",
        "bad-partition-metadata",
        "half-written",
        "leads-nowhere",
        "missing-partition",
        "no-segment",
        "repeated-broker",
        "repeated-partition",
        "txn-epoch-not-bumped",
        "txn-level-not-finalized",
        "unreadable",
        "wrong-cluster",
        "wrong-topic-id",
    )
)
"""Incidents that hide nothing, show nothing wrong and keep nobody waiting yet: a broker mends them when it starts, or
they only may lead to something. All others are critical."""

_OF_SEVERAL_FILES = frozenset(
    (
        "bad-checkpoint",
        "bad-crc",
        "bad-epoch-checkpoint",
        "bad-index",
        "bad-snapshot",
        "bad-txn-index",
        "half-written",
        "lost-tail",
        "lost-transactions",
        "misnamed-segment",
        "missing-segment",
        "no-segment",
        "replica-differs",
        "replica-has-more",
        "replica-lacks",
        "replica-lost-tail",
        "repeated-broker",
        "repeated-partition",
        "wrong-partition",
        "wrong-topic-id",
    )
)
"""Incidents that are told from more than one file; the others are told from one log up to where it ends, or, as
`hanging-transaction`, not at all before they are proven."""

_AT_THE_BEGINNING = (
    "The first batch of {topic}-{partition}, of producer {producer_id}, does not begin with sequence 0: {detail}.",
    "If the producer sent others before it, and they were acknowledged, they are lost.",
    _COMPARE,
)
"""Of `seq-first-not-zero` where nothing can be missing before it by its offset."""
_OTHER = ("{topic}-{partition}: {detail}.", "", "")
_OF_FILE = ("{path}: {detail}.", "", "")


def words_of(
    name: str, row: Mapping[str, Any], ends: Mapping[Partition, int], *, is_running: bool = False, stop: int = -1
) -> dict[str, str]:
    """The three sentences of an incident.

    `is_running`: its directory was not closed. `stop`: the first offset of another transaction that is open before it.
    """
    texts = SENTENCES.get(name) or (_OF_FILE if "anomaly" not in row and row.get("producer_id") is None else _OTHER)
    if name == "seq-first-not-zero" and int(row.get("end_offset", -1)) <= 0:
        texts = _AT_THE_BEGINNING
    key = (row.get("topic", ""), row.get("partition", -1))
    fill = {
        "detail": "",
        "problem": "",
        "producer_id": -1,
        "transactional_id": "",
        **row,
        "range": _range(int(row.get("offset", -1)), int(row.get("end_offset", -1)) - 1),
        "named": f" ({row['transactional_id']})" if row.get("transactional_id") else "",
        "earlier": "" if stop < 0 else f", once another open transaction that holds them at {stop:,} has ended",
        "behind": _waiting(max(0, ends.get(key, -1) + 1 - int(row.get("offset", 0)))),
    }
    if is_running and name in _OF_SEVERAL_FILES:
        texts = (*texts[:2], _AGAIN)
    if not fill["transactional_id"]:  # there is nothing to describe; who has written is known to the leader
        texts = (*texts[:2], texts[2].replace(_DESCRIBE, _WHO))
    texts = tuple(text.format_map(fill) for text in texts)  # type: ignore[assignment]
    return dict(zip(("what", "blocks", "run"), texts, strict=True))


def _waiting(count: int) -> str:
    return "1 offset waits" if count == 1 else f"{count:,} offsets wait"


def _range(first: int, last: int) -> str:
    return f"offset {first}" if first >= last else f"offsets {first:,} to {last:,}"
