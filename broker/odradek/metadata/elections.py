"""The ISR and leader of a partition after any event (Kafka's `PartitionChangeBuilder`).

A leader is elected from the in-sync replicas, or from the eligible ones: those that were in sync when fewer than
`min.insync.replicas` were left, and so have all committed records (KIP-966). A broker that has crashed may have lost
records, and is neither any more; if no replica is left, the last leader leads again. Only an unclean election takes
another one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from enum import IntEnum

from msgspec import Struct

from odradek.config.table import Config
from odradek.metadata.features import MIN_INSYNC
from odradek.metadata.image import NO_LEADER, MetadataImage, PartitionImage, ResourceType, TopicImage
from odradek.wire.messages.partition_change_record import PartitionChangeRecord

__all__ = ["Election", "ElectionRules", "changed", "elect_unclean", "election_rules"]

UNCLEAN = "unclean.leader.election.enable"


class Election(IntEnum):
    """Types of elections, numbered as in ElectLeaders; `KEEP` elects only if there is no leader."""

    KEEP = -1
    PREFERRED = 0
    UNCLEAN = 1


class ElectionRules(Struct, frozen=True):
    """The parts of the configuration that elections use, by topic or by broker."""

    min_insync: Callable[[str], int] = lambda topic: 1
    unclean: Callable[[str], bool] = lambda topic: False
    at_once: Callable[[int], bool] = lambda broker: True
    """Whether a broker acknowledges at once, so that its replicas are complete as soon as it is available."""
    eligible_replicas: bool = True
    """Whether there are eligible leader replicas; without them the last replica in the ISR stays when it fails."""


def election_rules(image: MetadataImage, config: Config, *, eligible_replicas: bool) -> ElectionRules:
    """The rules for an image; `config` has the defaults of the cluster."""

    def min_insync(topic: str) -> int:
        return int(image.config(ResourceType.TOPIC, topic).get(MIN_INSYNC, config.min_insync_replicas))

    def unclean(topic: str) -> bool:
        text = image.config(ResourceType.TOPIC, topic).get(UNCLEAN)
        return config.unclean_leader_election_enable if text is None else text.strip().lower() == "true"

    return ElectionRules(
        min_insync,
        unclean,
        lambda broker: image.replica_lag_ms(broker, config.odradek_replica_lag_ms) == 0,
        eligible_replicas,
    )


class _Partition:
    """The next state of a partition."""

    def __init__(self, topic: TopicImage, before: PartitionImage, image: MetadataImage, rules: ElectionRules) -> None:
        self.before = before
        self.image = image
        self.rules = rules
        self.topic = topic
        self.replicas = before.replicas
        self.adding = before.adding_replicas
        self.removing = before.removing_replicas
        self.isr = before.isr
        self.crashed: int | None = None
        self.eligible: tuple[int, ...] = ()
        self.leader = before.leader
        self.epoch_bumped = False

    def stay_in_sync(self, isr: Iterable[int]) -> None:
        """Keep the in-sync replicas whose broker is available; without eligible replicas the last one always stays."""
        alive = tuple(each for each in isr if self.image.is_alive(each))
        self.isr = alive if alive or self.rules.eligible_replicas else self.before.isr

    def complete_reassignment(self) -> None:
        """When all added replicas are in sync, the removed ones leave."""
        if not self.adding and not self.removing:
            return
        staying = tuple(each for each in self.isr if each not in self.removing)
        if staying and set(self.adding) <= set(staying):
            self.replicas = tuple(each for each in self.replicas if each not in self.removing)
            self.isr = staying
            self.adding = self.removing = ()

    def keep_eligible(self) -> None:
        """While too few are in sync, the former ones stay eligible: the high watermark does not move."""
        before, enough = self.before, min(self.rules.min_insync(self.topic.name), len(self.replicas))
        if not self.rules.eligible_replicas or len(self.isr) >= enough:
            self.eligible = ()
            return
        were = dict.fromkeys((*before.eligible_replicas, *before.isr))
        self.eligible = tuple(
            each for each in were if each not in self.isr and each in self.replicas and each != self.crashed
        )

    def elect(self, election: Election) -> None:
        """Choose the leader; one that was not in sync becomes the only in-sync replica."""
        leader = self._elected(election)
        if leader != self.leader or (leader != NO_LEADER and leader not in self.isr):
            self.epoch_bumped = True
        self.leader = leader
        if leader != NO_LEADER and leader not in self.isr:
            # After an unclean election no replica is eligible: records that the leader lacks are no longer committed.
            clean = leader in self.eligible
            self.isr = (leader,)
            self.eligible = tuple(each for each in self.eligible if each != leader) if clean else ()
        if leader == self.before.leader != NO_LEADER and set(self.before.replicas) - set(self.replicas):
            # A replica that has left must not stay eligible.
            self.epoch_bumped = True

    def _elected(self, election: Election) -> int:
        order: tuple[int, ...] = (self.leader, *self.replicas)
        if election is Election.PREFERRED:
            order = (self.replicas[0], *order)
        may_lead: list[Collection[int]] = [(*self.isr, *self.eligible)]
        if not may_lead[0] and len(self.before.last_known_eligible) == 1:
            may_lead.append(self.before.last_known_eligible)
        if election is Election.UNCLEAN or self.rules.unclean(self.topic.name):
            may_lead.append(self.replicas)
        for candidates in may_lead:
            for each in order:
                if each in candidates and each in self.replicas and self.image.is_alive(each):
                    return each
        return NO_LEADER

    def record(self) -> PartitionChangeRecord | None:
        """The record of the change, or None if nothing has changed."""
        before = self.before
        record = PartitionChangeRecord(topic_id=self.topic.id, partition_id=before.index)
        if set(self.isr) != set(before.isr):
            record.isr = list(self.isr)
        if self.epoch_bumped:
            record.leader = self.leader
        if self.replicas != before.replicas:
            record.replicas = list(self.replicas)
        if self.adding != before.adding_replicas:
            record.adding_replicas = list(self.adding)
        if self.removing != before.removing_replicas:
            record.removing_replicas = list(self.removing)
        if self.eligible != before.eligible_replicas:
            record.eligible_leader_replicas = list(self.eligible)
        last_known = self._last_known()
        if last_known != before.last_known_eligible:
            record.last_known_elr = list(last_known)
        untouched = PartitionChangeRecord(topic_id=self.topic.id, partition_id=before.index)
        return None if record == untouched else record

    def _last_known(self) -> tuple[int, ...]:
        if self.isr or not self.rules.eligible_replicas:
            return ()
        before = self.before
        return before.last_known_eligible if before.leader == NO_LEADER else (before.leader,)


def changed(
    topic: TopicImage,
    partition: PartitionImage,
    image: MetadataImage,
    rules: ElectionRules,
    *,
    isr: Iterable[int] | None = None,
    replicas: tuple[int, ...] | None = None,
    adding: tuple[int, ...] | None = None,
    removing: tuple[int, ...] | None = None,
    election: Election = Election.KEEP,
    crashed: int | None = None,
) -> PartitionChangeRecord | None:
    """The change of a partition with this ISR, or with this assignment, and the brokers of the image.

    None: no change.
    """
    after = _Partition(topic, partition, image, rules)
    after.crashed = crashed
    if replicas is not None:
        after.replicas = replicas
    if adding is not None:
        after.adding = adding
    if removing is not None:
        after.removing = removing
    after.stay_in_sync(partition.isr if isr is None else isr)
    after.isr = tuple(each for each in after.isr if each in after.replicas)
    after.complete_reassignment()
    after.keep_eligible()
    after.elect(election)
    return after.record()


def elect_unclean(image: MetadataImage, rules: ElectionRules) -> list[Struct]:
    """Unclean elections for the partitions without a leader whose topics allow them."""
    records: list[Struct] = []
    for name, topic in image.topics.items():
        leaderless = [each for each in topic.partitions.values() if each.leader == NO_LEADER]
        if leaderless and rules.unclean(name):
            found = (changed(topic, each, image, rules) for each in leaderless)
            records += [record for record in found if record is not None]
    return records
