"""The options of the demo's commands, and what a program passes in their place."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from msgspec import Struct

from odradek.cli.commands import Option

__all__ = ["ConsumeOptions", "DemoOptions", "GroupProtocol", "Isolation", "ProduceOptions"]


class Isolation(StrEnum):
    """The isolation level of a consumer."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class GroupProtocol(StrEnum):
    """How consumers get their partitions."""

    NONE = "none"
    CLASSIC = "classic"
    CONSUMER = "consumer"


Bootstrap = Annotated[str, Option(help="HOST:PORT of the brokers, separated by commas.")]
Topic = Annotated[str, Option(help="Topic of the transfers.")]
Rate = Annotated[float, Option(min=0.01, help="Transactions a second of one producer.")]
AbortEvery = Annotated[int, Option(min=0, help="On average one transaction in so many aborts; 0 for none.")]
CrashEvery = Annotated[int, Option(min=0, help="On average one transaction in so many crashes; 0 for none.")]
Seed = Annotated[int | None, Option(help="Seed of what the producers plan.")]
Level = Annotated[Isolation, Option(help="Isolation level of the consumer.")]
Protocol = Annotated[
    GroupProtocol, Option(help="Protocol of the group that consumers share the partitions in; none has no group.")
]


class DemoOptions(Struct, frozen=True, kw_only=True):
    """The options of `odradek demo`; rates are in transactions per second and producer."""

    seconds: Annotated[float, Option(min=0, help="How long the producers work.")] = 30
    brokers: Annotated[int, Option(min=1, help="Number of brokers.")] = 3
    partitions: Annotated[int, Option(min=1, help="Partitions of the topic.")] = 6
    producers: Annotated[int, Option(min=1, help="Number of producers.")] = 2
    consumers: Annotated[int, Option(min=1, help="Number of consumers; several need a group.")] = 1
    group_protocol: Protocol = GroupProtocol.NONE
    isolation: Level = Isolation.READ_COMMITTED
    rate: Rate = 40
    abort_every: AbortEvery = 6
    crash_every: CrashEvery = 60
    port: Annotated[int, Option(help="Port of the first broker; 0 picks free ones.", min=0, max=65535)] = 0
    metrics_port: Annotated[int, Option(help="Port of the metrics page; 0 picks a free one.", min=0, max=65535)] = 0
    events: Annotated[Path | None, Option(help="Keep the brokers' events in this file.")] = None
    transaction_version: Annotated[int, Option(min=0, max=2, help="Level of transaction.version.")] = 2
    seed: Seed = None


class ProduceOptions(Struct, frozen=True, kw_only=True):
    """The options of `odradek demo produce`; `transactions` is None for no limit."""

    bootstrap: Bootstrap = "localhost:9092"
    topic: Topic = "transfers"
    transactional_id: Annotated[str, Option(help="Whoever comes with the same one fences the others.")] = "till-1"
    rate: Rate = 40
    abort_every: AbortEvery = 6
    crash_every: CrashEvery = 60
    transactions: Annotated[int | None, Option(min=0, help="End after so many.")] = None
    seed: Seed = None


class ConsumeOptions(Struct, frozen=True, kw_only=True):
    """The options of `odradek demo consume`."""

    bootstrap: Bootstrap = "localhost:9092"
    topic: Topic = "transfers"
    isolation: Level = Isolation.READ_COMMITTED
    group_protocol: Protocol = GroupProtocol.NONE
