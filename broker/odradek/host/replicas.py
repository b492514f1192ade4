"""The effects of a new image on a broker: partitions to lead or to give up, configs to adopt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from odradek.config.table import Config, TopicConfig
from odradek.core.internal_topics import INTERNAL_TOPICS
from odradek.core.machine import Fact, Refused
from odradek.host.replication import Replication
from odradek.log.partition import Partition
from odradek.log.replica import Replica
from odradek.metadata.image import MetadataImage, PartitionImage, ResourceType, TopicImage
from odradek.wire.errors import ErrorCode
from odradek.wire.primitives import uuid_text

if TYPE_CHECKING:
    from odradek.host.coordinators import Coordinators
    from odradek.host.exchange import Serving
    from odradek.host.peers import Peers
    from odradek.host.shard import Coordinator

__all__ = ["READABLE", "Replicas"]

LED_AT_ONCE = 100
"""Number of partitions that a broker begins to lead, or gives up, between two turns; one takes some 20 µs."""
ADOPTED_AT_ONCE = 1_000
"""Number of partitions that adopt settings between two turns; one takes some 4 µs."""
READABLE = "readable"
"""First part of the purgatory key of fetches that wait for a partition to grow."""


class Replicas:
    """The replicas of a broker: found, led, given up, appended to."""

    def __init__(self, node: Serving, peers: Peers, coordinators: Coordinators) -> None:
        self._node = node
        self._default: tuple[Config, TopicConfig] | None = None
        """The settings of topics without configs of their own, and the configuration behind them."""
        self._coordinators = coordinators
        self.replication = Replication(node, peers, self.appended)
        self.given_up: Callable[[Partition], None] = _nothing
        """Called with each partition that is no longer led here."""
        self._to_lead: dict[tuple[str, int], bool] = {}
        """New partitions to lead in later turns, or at their first use, and whether that was told."""
        self._asleep: dict[tuple[str, int], PartitionImage] = {}
        """Partitions without records of a fork, which are led from their first use on."""
        coordinators.wake = self.find
        self.to_adopt: dict[tuple[str, int], None] = {}
        """Partitions with changed settings, which apply in later turns or at their next use."""

    def find(self, topic: str, index: int) -> Partition | None:
        """A partition that this node leads, or believes to lead."""
        key = (topic, index)
        if self._to_lead and key in self._to_lead:
            self._lead_late(key, {})
        if self._asleep and key in self._asleep:
            self._wake(key, {})
        if self.to_adopt and key in self.to_adopt:
            self._adopt_late(key, {})
        return self._node.partitions.get(key)

    @property
    def asleep(self) -> int:
        """How many partitions are led from their first use on."""
        return len(self._asleep)

    def every(self) -> list[Partition]:
        """All partitions that this node leads, or believes to lead, but for those to lead in later turns."""
        configs: dict[str, TopicConfig] = {}
        for key in list(self._asleep):
            self._wake(key, configs)
        return list(self._node.partitions.values())

    def led(self, topic: str, index: int) -> Partition | Refused:
        """A partition that this node leads according to its newest image."""
        node = self._node
        partition = self.find(topic, index)
        if partition is not None and partition.is_leader:
            return partition
        if node.metadata.image.partition(topic, index) is None:
            return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def led_in(self, topic: str, index: int, leader_epoch: int) -> Partition | Refused:
        """A partition that this node leads, if the client's leader epoch is this one (KIP-320); -1: any.

        A replica that does not lead checks the epoch first, too.
        """
        partition = self.led(topic, index)
        judge = self.held(topic, index) if isinstance(partition, Refused) else partition
        if not isinstance(judge, Refused) and (error := judge.check_leader_epoch(leader_epoch)) is not ErrorCode.NONE:
            return Refused(error)
        return partition

    def held(self, topic: str, index: int) -> Replica | Refused:
        """A partition with a replica on this node, whichever broker leads it."""
        node = self._node
        registered = node.metadata.image.partition(topic, index)
        if registered is None:
            return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if node.node_id not in registered.replicas:
            return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log = node.store.find(node.metadata.image.topics[topic].id, index)
        return Replica(log, registered.leader_epoch, node.node_id)

    def appended(self, partition: Partition, coordinator: Coordinator | None = None) -> None:
        """Records were appended: wake waiting readers, and fold committed records of a coordinator."""
        node = self._node
        log = partition.log
        if log.mark is not None:
            self.replication.appended(partition)
        if log.awaited_by:
            node.outbox.advance(frozenset(log.awaited_by), partition.topic, partition.index)
            log.awaited_by.clear()
        if node.purgatory.waits:
            node.purgatory.wake((READABLE, partition.key))
        if coordinator is None and partition.topic in INTERNAL_TOPICS:
            coordinator = self._coordinators.at(partition.topic, partition.index)
        if coordinator is not None:
            coordinator.advance()
        if partition.facts:
            facts, partition.facts = partition.facts, []
            node.facts.emit(facts)
        store = node.store
        if store.facts:
            facts, store.facts = store.facts, []
            node.facts.emit(facts)

    def leader_advanced(self, topic: str, index: int) -> None:
        """The leader of a partition with a replica here has more records that may be read."""
        self._node.purgatory.wake((READABLE, (topic, index)))

    def adopt(self, before: MetadataImage, after: MetadataImage) -> None:
        """Move the node from one image to the next."""
        if before.features is not after.features:
            self._tell_features(before, after)
        if before.topics is not after.topics:
            for name, topic in before.topics.items():
                kept = after.topics.get(name)
                if kept is None or kept.id != topic.id:
                    self._drop_topic(topic)
            if not before.topics and self._node.store.settles_late:
                self._let_sleep(after)
            for name, topic in after.topics.items():
                known = before.topics.get(name)
                if known is None and before.topics:
                    self._begin_topic(topic, after)
                elif known is not topic:
                    self._adopt_topic(topic, after)
        # A broker that has just started leads nothing yet but what it has begun with the settings of now.
        if before.topics and (before.configs is not after.configs or before.brokers is not after.brokers):
            self._adopt_settings(before, after)

    def lost(self, partition: Partition) -> Refused | None:
        """Why a partition from before a wait can no longer be written to; None if it can.

        Deleted topics and moved leaders get different errors, as in Kafka, which looks the partition up again too.
        """
        if partition.is_leader and self._node.partitions.get(partition.key) is partition:
            return None
        topic = self._node.metadata.image.topic(partition.topic)
        if topic is None or partition.index not in topic.partitions:
            return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        # Another topic may have got the name meanwhile.
        same = topic.id == partition.topic_id
        return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER if same else ErrorCode.UNKNOWN_TOPIC_ID)

    def _drop_topic(self, topic: TopicImage) -> None:
        keys = [(topic.name, index) for index in topic.partitions]
        removed = [(key, self._remove(key)) for key in keys]
        if len(removed) <= LED_AT_ONCE or topic.name in INTERNAL_TOPICS:
            for key, partition in removed:
                self._given_up(key, partition)
        else:
            self._node.kernel.spawn(self._give_up(removed))
        # What groups have committed for the topic goes with it.
        for coordinator in self._coordinators.all():
            if coordinator.partition.is_leader:
                self._node.kernel.spawn(coordinator.topic_deleted(topic))

    def _adopt_topic(self, topic: TopicImage, image: MetadataImage) -> None:
        node = self._node
        config: TopicConfig | None = None
        begun = 0
        for index, registered in topic.partitions.items():
            key = (topic.name, index)
            held = node.partitions.get(key)
            was_told = False
            if self._asleep and key in self._asleep:
                if self._asleep[key] is registered:
                    continue
                was_told = self._rouse(key, registered)
            if registered.leader != node.node_id:
                if held is not None or key in self._to_lead or node.purgatory.waits:
                    self._resign(topic.name, index)
            elif held is None and begun >= LED_AT_ONCE and topic.name not in INTERNAL_TOPICS:
                self._lead_later((key,), was_told=was_told)
            elif held is None or held.leader_epoch != registered.leader_epoch:
                if held is not None:
                    self._resign(topic.name, index)
                begun += 1
                config = config or self._topic_config(image, topic.name)
                self._to_lead.pop(key, None)
                self._lead(topic, registered, config, was_told=was_told)
            else:
                self.replication.adopt(held, registered)

    def _begin_topic(self, topic: TopicImage, image: MetadataImage) -> None:
        """Lead the partitions of a topic that did not exist: nothing of it is here, and there may be 100,000."""
        node_id, name = self._node.node_id, topic.name
        led = [each for each in topic.partitions.values() if each.leader == node_id]
        at_once = len(led) if name in INTERNAL_TOPICS else LED_AT_ONCE
        if not led:
            return
        config = self._topic_config(image, name)
        for registered in led[:at_once]:
            self._lead(topic, registered, config)
        if later := led[at_once:]:
            self._lead_later([(name, each.index) for each in later])

    def _let_sleep(self, image: MetadataImage) -> None:
        """Of a fork: lead what has no records when it is first used, if its followers owe nothing.

        Nobody hears of the difference. Whatever concerns such a partition later, a new ISR or another leader, comes
        with its next state.
        """
        node = self._node
        level = self.replication.at_once(image)
        facts: list[Fact] = []
        for topic in image.topics.values():
            topic_id = uuid_text(topic.id) if node.facts.told else ""
            for index, registered in topic.partitions.items():
                if (
                    registered.leader != node.node_id
                    or not level.issuperset(registered.replicas)
                    or registered.adding_replicas
                    or set(registered.isr) != set(registered.replicas)
                    or node.store.find(topic.id, index) is not None
                ):
                    continue
                self._asleep[topic.name, index] = registered
                if node.facts.told:
                    facts.append(_taken(topic.name, registered, topic_id))
        if facts:
            node.facts.emit(facts)

    def _wake(self, key: tuple[str, int], configs: dict[str, TopicConfig]) -> None:
        """Lead a partition that was asleep."""
        registered, topic = self._asleep.pop(key), self._node.metadata.image.topics[key[0]]
        self._lead(topic, registered, self._config_of(topic.name, configs), was_told=True)

    def _rouse(self, key: tuple[str, int], registered: PartitionImage | None) -> bool:
        """A partition that was asleep has another state, or is gone; whether it goes on in the same leader epoch."""
        before = self._asleep.pop(key)
        if registered is not None and registered.leader_epoch == before.leader_epoch:
            return True
        if self._node.facts.told:
            self._tell("leadership_given_up", *key, leader_epoch=before.leader_epoch)
        return False

    def _lead_later(self, keys: Iterable[tuple[str, int]], *, was_told: bool = False) -> None:
        """Lead partitions in a later turn, because very many take long."""
        if not self._to_lead:
            self._node.kernel.spawn(self._go_on(self._to_lead, LED_AT_ONCE, self._lead_late))
        self._to_lead.update(dict.fromkeys(keys, was_told))

    async def _go_on(
        self,
        pending: Mapping[tuple[str, int], object],
        at_most: int,
        go_on: Callable[[tuple[str, int], dict[str, TopicConfig]], None],
    ) -> None:
        """In later turns, process pending keys, this number in a turn."""
        turns = self._node.turns
        while True:
            await turns.next()
            configs: dict[str, TopicConfig] = {}
            for count, key in enumerate(list(islice(pending, at_most))):
                if count and turns.has_clock and turns.is_over():
                    break
                go_on(key, configs)
            if not pending:
                return

    def _lead_late(self, key: tuple[str, int], configs: dict[str, TopicConfig]) -> None:
        node = self._node
        was_told = self._to_lead.pop(key)
        name, index = key
        topic = node.metadata.image.topic(name)
        registered = None if topic is None else topic.partitions.get(index)
        if topic is None or registered is None or registered.leader != node.node_id or key in node.partitions:
            return
        self._lead(topic, registered, self._config_of(name, configs), was_told=was_told)

    def _config_of(self, topic: str, configs: dict[str, TopicConfig]) -> TopicConfig:
        """The topic's settings, looked up once for all its partitions."""
        config = configs.get(topic)
        if config is None:
            config = configs[topic] = self._topic_config(self._node.metadata.image, topic)
        return config

    def _topic_config(self, image: MetadataImage, topic: str) -> TopicConfig:
        """The settings of a topic; topics without configs of their own share one result."""
        own, config = image.config(ResourceType.TOPIC, topic), self._node.settings.config
        if own:
            return TopicConfig.resolve(own, config)
        if self._default is None or self._default[0] is not config:
            self._default = config, TopicConfig.resolve({}, config)
        return self._default[1]

    def _lead(
        self, topic: TopicImage, registered: PartitionImage, config: TopicConfig, *, was_told: bool = False
    ) -> None:
        node = self._node
        log = node.store.open(topic.id, registered.index, config)
        if log.leader_epoch > registered.leader_epoch:
            # We hear of it too late: the leader after us has taken the log over already.
            return
        if log.behind:
            for gone in log.behind.keys() - set(registered.replicas):
                # Where a replica ended that is none any more says nothing, should its broker get one again.
                del log.behind[gone]
        partition = Partition(
            topic=topic.name,
            topic_id=topic.id,
            index=registered.index,
            log=log,
            leader_epoch=registered.leader_epoch,
            config=config,
            now=node.clock.now,
            producer_rules=node.release.producers,
            leader=node.node_id,
        )
        if node.facts.told:
            partition.facts = []
        key = (topic.name, registered.index)
        node.partitions[key] = partition
        self.replication.adopt(partition, registered)
        if node.facts.told and not was_told:
            node.facts.emit((_taken(topic.name, registered, uuid_text(topic.id)),))
        if partition.lost_offsets:
            # Its successor goes on where its own records end: what only the leader before had is gone.
            end, lost = partition.first_offset, partition.lost_offsets
            self._tell("log_truncated", topic.name, registered.index, end_offset=end, lost_offsets=lost)
        if topic.name in INTERNAL_TOPICS and log.end_offset > 0:
            # What the log says may be owed; an empty one owes nothing, and its machine is made when it is first asked.
            self._coordinators.begin(partition)
        node.purgatory.wake((READABLE, key))

    def _resign(self, topic: str, index: int) -> None:
        key = (topic, index)
        self._given_up(key, self._remove(key))

    def _remove(self, key: tuple[str, int]) -> Partition | None:
        """Stop leading a partition."""
        self._to_lead.pop(key, None)
        if self._asleep and key in self._asleep:
            self._rouse(key, None)
        return self._node.partitions.pop(key, None)

    async def _give_up(self, removed: list[tuple[tuple[str, int], Partition | None]]) -> None:
        """Tell the observers, a few at a time, that these partitions are no longer led here."""
        for count, (key, partition) in enumerate(removed, 1):
            self._given_up(key, partition)
            if not count % LED_AT_ONCE:
                await self._node.turns.breathe_behind()

    def _given_up(self, key: tuple[str, int], partition: Partition | None) -> None:
        node = self._node
        topic, index = key
        if partition is None:
            # Another leader, or none: readers of a replica that does not lead look again.
            if node.purgatory.waits:
                self.leader_advanced(topic, index)
            return
        if node.facts.told:
            self._tell("leadership_given_up", topic, index, leader_epoch=partition.leader_epoch)
        self._coordinators.end(topic, index)
        self.replication.resign(partition)
        self.given_up(partition)
        node.purgatory.wake((READABLE, key))

    def _tell(self, kind: str, topic: str, index: int, **fields: object) -> None:
        self._node.facts.emit((Fact(kind, {"topic": topic, "partition": index, **fields}),))

    def _tell_features(self, before: MetadataImage, after: MetadataImage) -> None:
        for feature in sorted(before.features.keys() | after.features.keys()):
            old, new = before.feature(feature), after.feature(feature)
            if old != new:
                self._node.facts.emit(
                    (Fact("feature_changed", {"feature": feature, "level_from": old, "level_to": new}),)
                )

    def _adopt_settings(self, before: MetadataImage, after: MetadataImage) -> None:
        """Adopt changes of topics and of brokers in the partitions that they may concern."""
        partitions = self._node.partitions
        changed = _changed_configs(before, after)
        if _in_service(before) != _in_service(after) or any(kind == ResourceType.BROKER for kind, _ in changed):
            concerned = dict.fromkeys(partitions)
        else:
            topics = [
                after.topics[name] for kind, name in changed if kind == ResourceType.TOPIC and name in after.topics
            ]
            concerned = {(topic.name, index): None for topic in topics for index in topic.partitions}
        if len(concerned) > ADOPTED_AT_ONCE:
            if not self.to_adopt:
                self._node.kernel.spawn(self._go_on(self.to_adopt, ADOPTED_AT_ONCE, self._adopt_late))
            self.to_adopt |= concerned
            return
        configs: dict[str, TopicConfig] = {}
        for key in concerned:
            self._adopt_late(key, configs)

    def _adopt_late(self, key: tuple[str, int], configs: dict[str, TopicConfig]) -> None:
        """Apply the current settings to a partition."""
        self.to_adopt.pop(key, None)
        node = self._node
        partition = node.partitions.get(key)
        if partition is None:
            return
        name, index = key
        config = self._config_of(name, configs)
        if config != partition.config:
            partition.configure(config)
        registered = node.metadata.image.partition(name, index)
        if registered is not None and registered.leader_epoch == partition.leader_epoch:
            self.replication.adopt(partition, registered)


def _taken(topic: str, registered: PartitionImage, topic_id: str) -> Fact:
    return Fact(
        "leadership_taken",
        {
            "topic": topic,
            "partition": registered.index,
            "leader_epoch": registered.leader_epoch,
            "topic_id": topic_id,
        },
    )


def _in_service(image: MetadataImage) -> set[int]:
    return {node_id for node_id, broker in image.brokers.items() if not broker.fenced}


def _changed_configs(before: MetadataImage, after: MetadataImage) -> list[tuple[int, str]]:
    """The resources whose own configs have changed."""
    old, new = before.configs, after.configs
    if old is new:
        return []
    return [each for each, values in new.items() if old.get(each) is not values] + [
        each for each in old if each not in new
    ]


def _nothing(partition: Partition) -> None:
    pass
