"""Where Odradek as an older release does not answer as that release did, and why."""

from __future__ import annotations

from collections.abc import Mapping

from tests.oracle.scenario import Scenario

__all__ = ["DIFFERENCES", "reason"]

START_TIME = "before 4.4 DescribeTransactions tells when the transaction before began, until the coordinator reloads"
ROTATION = "4.0 rotates the producer id of some transactions at the last epoch later, or tells so in other words"
MESSAGE = "only the text of a message"
COORDINATED = "as 4.3, too, groups are coordinated as by 4.4, which counts epochs and moves tasks in other steps"
HASHED = "of several unknown keys Kafka names the first of a hash map"
CONVERTED = (
    "up to 3.9 what follows a batch without records is converted twice, and filled up with a message that is cut"
)

DIFFERENCES: Mapping[str, str] = {
    "compaction/old-fetches-of-batches-without-records": CONVERTED,
    "consumer_groups/two-members-share-a-topic": "4.0 writes the partitions of topics where 4.4 writes a hash",
    "consumer_protocol/a-member-joins-stays-and-leaves": COORDINATED,
    "consumer_protocol/groups-are-deleted": COORDINATED,
    "consumer_protocol/groups-are-listed-by-type-and-state": COORDINATED,
    "consumer_protocol/the-assignor-changes": COORDINATED,
    "consumer_protocol/the-protocols-do-not-mix-where-they-cannot": COORDINATED,
    "consumer_protocol/the-range-assignor": COORDINATED,
    "coordinators/keys-that-are-odd": MESSAGE,
    "epoch_overflow/a-fence-at-the-last-epoch": ROTATION,
    "epoch_overflow/a-fence-at-the-last-epoch-of-an-old-client": ROTATION,
    "epoch_overflow/a-new-client-commits-at-the-last-epoch": ROTATION,
    "epoch_overflow/a-new-instance-at-the-last-epoch": START_TIME,
    "epoch_overflow/a-producer-asks-for-an-epoch-beyond-the-last": START_TIME,
    "epoch_overflow/a-timeout-at-the-last-epoch": ROTATION,
    "fencing/a-new-instance-when-nothing-is-open": START_TIME,
    "fencing/a-producer-fences-itself": START_TIME,
    "fencing/a-transaction-times-out": START_TIME,
    "fencing/the-fenced-producer-comes-back-before-the-new-instance-does": START_TIME,
    "fetch/offsets-within-and-beyond": "2.8 has null for the aborted transactions of a partition that it refuses",
    "groups/offsets-of-a-member-in-a-transaction": "2.8 does not compare the static member of a TxnOffsetCommit",
    "idempotent_produce/producers-as-they-are-described": MESSAGE,
    "init_producer_id/an-instance-after-a-commit-keeps-the-producer-id": START_TIME,
    "produce/more-replicas-to-be-in-sync-than-there-are": "up to 3.6 min.insync.replicas may be more than the replicas",
    "produce/no-records-at-all": "older releases hang up, answer UNKNOWN_SERVER_ERROR, or nothing at all",
    "produce/records-without-a-key-in-a-compacted-topic": MESSAGE,
    "restarts/a-retry-of-an-epoch-bump-behind-a-restart": "the last epoch is kept in the log, in every release",
    "share_groups/a-member-joins-stays-and-leaves": COORDINATED,
    "share_groups/groups-are-deleted": COORDINATED,
    "streams_members/a-static-member": COORDINATED,
    "streams_members/a-static-member-comes-back-from-another-process": COORDINATED,
    "streams_members/an-admin-cannot-remove-members": COORDINATED,
    "streams_members/an-empty-streams-group-becomes-a-classic-group": COORDINATED,
    "streams_members/offsets-of-members": COORDINATED,
    "streams_topics/standby-tasks": COORDINATED,
    "streams_topics/what-the-configs-of-a-group-tell": HASHED,
    "versions/a-broker-adds-partitions-for-its-client": "at level 0 Kafka 4 wedges the transactional id, as 4.4 does",
}
"""By the path of the scenario; what differs from the newest release too is said in the scenario."""


def reason(scenario: Scenario) -> str | None:
    """Why its answers are kept twice, if they are."""
    return DIFFERENCES.get(scenario.path) or scenario.differs
