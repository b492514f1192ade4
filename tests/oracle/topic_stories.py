"""Stories of topics: their configs, their partitions, their end, and what producers notice of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from tests.oracle.telling import mostly, told

__all__ = ["Topics"]

CONFIGS = {
    "retention.ms": ("-1", "86400000", "-2", "soon"),
    "cleanup.policy": ("compact", "delete", "compact,delete", "none", ""),
    "max.message.bytes": ("100", "90", "1048588", "-1"),
    "message.timestamp.type": ("LogAppendTime", "CreateTime", "never"),
    "min.insync.replicas": ("1", "2", "0"),
    "compression.type": ("gzip", "producer", "lz4", "zip"),
    "delete.retention.ms": ("0", "1", "many"),
    "no.such.config": ("1",),
}
SET, DELETE, APPEND, SUBTRACT, NO_SUCH = 0, 1, 2, 3, 9


@dataclass
class Topics:
    """A real broker hears of its controller's decisions late, so that stories wait a moment after each."""

    dice: Random

    @staticmethod
    def begin(_dice: Random) -> list[str]:
        return ["topic t 2 retention.ms=-1", "Produce v9 null null null t-0 records=3", "Produce v9 null null null t-1"]

    @classmethod
    def tell(cls, dice: Random, _level: int) -> Iterator[str]:
        teller = cls(dice)
        steps: dict[Callable[[], Iterator[str]], int] = {
            teller.alter: 6,
            teller.alter_all: 2,
            teller.describe: 4,
            teller.grow: 2,
            teller.cut: 2,
            teller.create: 2,
            teller.delete: 1,
            teller.produce: 5,
            teller.look: 3,
        }
        return told(dice, steps, length=14)

    def topic(self) -> str:
        return mostly(self.dice, "t", "u", "unknown", weight=9)

    def validated(self) -> str:
        return mostly(self.dice, "", " validate_only=true", weight=6)

    def config(self) -> tuple[str, str]:
        """A name and a text in quotes, or null."""
        name = self.dice.choice(list(CONFIGS))
        return name, mostly(self.dice, f'"{self.dice.choice(CONFIGS[name])}"', "null", weight=15)

    def alter(self) -> Iterator[str]:
        configs = []
        for _ in range(self.dice.choice((1, 1, 1, 2, 3))):
            operation = self.dice.choice((SET, SET, SET, SET, DELETE, APPEND, SUBTRACT, NO_SUCH))
            name, value = self.config()
            configs.append(f'{{name: "{name}", config_operation: {operation}, value: {value}}}')
        resource = f"{{resource_type: 2, resource_name: {self.topic()}, configs: [{', '.join(configs)}]}}"
        yield f"IncrementalAlterConfigs v1 resources=[{resource}]{self.validated()}"
        yield "settle"

    def alter_all(self) -> Iterator[str]:
        pairs = [self.config() for _ in range(self.dice.randrange(3))]
        configs = ", ".join(f'{{name: "{name}", value: {value}}}' for name, value in pairs)
        resource = f"{{resource_type: 2, resource_name: {self.topic()}, configs: [{configs}]}}"
        yield f"AlterConfigs v{self.dice.choice((0, 1, 2))} resources=[{resource}]{self.validated()}"
        yield "settle"

    def describe(self) -> Iterator[str]:
        keys = ", ".join(f'"{name}"' for name in self.dice.sample(list(CONFIGS), 4))
        resource = f"{{resource_type: 2, resource_name: {self.topic()}, configuration_keys: [{keys}]}}"
        synonyms = self.dice.choice(("", " include_synonyms=true"))
        yield f"DescribeConfigs v{self.dice.choice((1, 3, 4))} resources=[{resource}]{synonyms}"

    def grow(self) -> Iterator[str]:
        assigned = self.dice.choice(
            ("", "", ", assignments: [{broker_ids: [1]}]", ", assignments: [{broker_ids: [7]}]")
        )
        topic = f"{{name: {self.topic()}, count: {self.dice.choice((0, 2, 3, 3, 4))}{assigned}}}"
        topics = mostly(self.dice, f"[{topic}]", f"[{topic}, {topic}]")
        yield f"CreatePartitions v{self.dice.choice((0, 1, 3))} topics={topics} timeout_ms=5000{self.validated()}"
        yield "settle"

    def cut(self) -> Iterator[str]:
        partition = f"{{partition_index: {self.dice.choice((0, 0, 1, 5))}, offset: {self.dice.choice((-1, 0, 2, 50))}}}"
        topics = f"[{{name: {self.topic()}, partitions: [{partition}]}}]"
        yield f"DeleteRecords v{self.dice.choice((0, 1, 2))} topics={topics} timeout_ms=5000"

    def create(self) -> Iterator[str]:
        name, value = self.config()
        configs = mostly(self.dice, "", f', configs: [{{name: "{name}", value: {value}}}]', weight=1)
        count, factor = self.dice.choice((-1, 1, 2, 0)), mostly(self.dice, 1, -1, 3, weight=6)
        topic = f"{{name: {self.topic()}, num_partitions: {count}, replication_factor: {factor}{configs}}}"
        topics = mostly(self.dice, f"[{topic}]", f"[{topic}, {topic}]")
        yield f"CreateTopics v{self.dice.choice((4, 5, 7))} topics={topics} timeout_ms=5000{self.validated()}"
        yield "settle"

    def delete(self) -> Iterator[str]:
        name = self.topic()
        yield self.dice.choice(
            (
                f"DeleteTopics v5 topic_names=[{name}] timeout_ms=5000",
                f"DeleteTopics v6 topics=[{{name: {name}}}] timeout_ms=5000",
                "DeleteTopics v6 topics=[{name: null, topic_id: id(t)}] timeout_ms=5000",
            )
        )
        yield "settle"

    def produce(self) -> Iterator[str]:
        index, count = self.dice.choice((0, 0, 0, 1, 2)), self.dice.choice((1, 3, 40))
        key = self.dice.choice(("", "", ' key="k"'))
        partition = f"{self.topic()}-{index}"
        yield f"Produce v{self.dice.choice((7, 9, 12))} null null null {partition} records={count} timestamp=7{key}"

    def look(self) -> Iterator[str]:
        yield self.dice.choice(
            (
                "Metadata v12 topics=[{name: t}] allow_auto_topic_creation=false",
                "ListOffsets v8 t-0 at=-1",
                "ListOffsets v8 t-2 at=-2",
                "Fetch v12 t-0 offset=0",
                "Fetch v12 t-0 offset=2",
                "DescribeTopicPartitions v0 topics=[{name: t}] response_partition_limit=3",
            )
        )
