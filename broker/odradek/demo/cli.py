"""`odradek demo`, `odradek demo produce`, `odradek demo consume`."""

from __future__ import annotations

import tempfile
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from odradek.cli.commands import Commands, Option
from odradek.cli.extras import need
from odradek.cli.parent import UntilStdinEnds, end_with_stdin
from odradek.cli.usage import UsageError

if TYPE_CHECKING:
    from odradek.demo.director import DemoOptions

__all__ = ["add_commands"]

VIOLATED = 1


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
Lines = Annotated[bool, Option(help="Tell everything as JSON lines instead of counts.")]


def add_commands(commands: Commands) -> None:
    """Add the demo to the commands."""
    commands.add("demo", play)
    commands.add("demo produce", produce_command)
    commands.add("demo consume", consume_command)


def play(
    seconds: Annotated[float, Option(min=0, help="How long the producers work.")] = 30,
    brokers: Annotated[int, Option(min=1, help="Number of brokers.")] = 3,
    partitions: Annotated[int, Option(min=1, help="Partitions of the topic.")] = 6,
    producers: Annotated[int, Option(min=1, help="Number of producers.")] = 2,
    consumers: Annotated[int, Option(min=1, help="Number of consumers; several need a group.")] = 1,
    group_protocol: Protocol = GroupProtocol.NONE,
    isolation: Level = Isolation.READ_COMMITTED,
    rate: Rate = 40,
    abort_every: AbortEvery = 6,
    crash_every: CrashEvery = 60,
    port: Annotated[int, Option(help="Port of the first broker; 0 picks free ones.", min=0, max=65535)] = 0,
    metrics_port: Annotated[int, Option(help="Port of the metrics page; 0 picks a free one.", min=0, max=65535)] = 0,
    events: Annotated[Path | None, Option(help="Keep the brokers' events in this file.")] = None,
    transaction_version: Annotated[int, Option(min=0, max=2, help="Level of transaction.version.")] = 2,
    seed: Seed = None,
) -> None:
    """Brokers, transactional producers that crash, a consumer that watches: did exactly-once hold?

    Exit code 0 if it did, 1 if not. `odradek demo produce` and `odradek demo consume` are the single players.
    """
    need("confluent_kafka", "rich", extra="demo")
    from odradek.demo.director import DemoOptions

    if events is not None:
        _must_be_new(events)
    if consumers > 1 and group_protocol is GroupProtocol.NONE:
        raise UsageError("Several consumers need a group: say --group-protocol classic or --group-protocol consumer.")
    options = DemoOptions(
        seconds=seconds,
        brokers=brokers,
        partitions=partitions,
        producers=producers,
        consumers=consumers,
        group_protocol=group_protocol,
        isolation=isolation,
        rate=rate,
        abort_every=abort_every,
        crash_every=crash_every,
        port=port,
        metrics_port=metrics_port,
        events=events,
        transaction_version=transaction_version,
        seed=seed,
    )
    with tempfile.TemporaryDirectory(prefix="odradek-demo-") as work:
        raise SystemExit(_play(options, Path(work)))


def _play(options: DemoOptions, work: Path) -> int:
    import anyio

    from odradek.demo.director import DemoFailed, direct
    from odradek.demo.view import Screen, live_view, summary

    console = Screen()
    try:
        with live_view(console, seconds=options.seconds) as show:
            board, verdict = anyio.run(lambda: direct(options, work=work, show=show))
    except DemoFailed as failure:
        print(f"The demo was not played to its end. {failure}")
        return VIOLATED
    for line in summary(board, verdict):
        console.print(line, soft_wrap=True, markup=False, highlight=False)
    return 0 if verdict.held else VIOLATED


def produce_command(
    bootstrap: Bootstrap = "localhost:9092",
    topic: Topic = "transfers",
    transactional_id: Annotated[str, Option(help="Whoever comes with the same one fences the others.")] = "till-1",
    rate: Rate = 40,
    abort_every: AbortEvery = 6,
    crash_every: CrashEvery = 60,
    transactions: Annotated[int | None, Option(min=0, help="End after so many.")] = None,
    seed: Seed = None,
    lines: Lines = False,
    until_stdin_ends: UntilStdinEnds = False,
) -> None:
    """Transfer money in transactions; abort now and then, and die now and then, with exit code 137."""
    need("confluent_kafka", extra="demo")
    from odradek.demo.lines import JsonLines, Spoken
    from odradek.demo.producer import ProduceOptions, produce
    from odradek.demo.stop import stop_signal

    stopped = stop_signal()
    if until_stdin_ends:
        end_with_stdin()
    options = ProduceOptions(
        bootstrap=bootstrap,
        topic=topic,
        transactional_id=transactional_id,
        rate=rate,
        abort_every=abort_every,
        crash_every=crash_every,
        transactions=transactions,
        seed=seed,
    )
    raise SystemExit(produce(options, tell=JsonLines() if lines else Spoken(), stopped=stopped))


def consume_command(
    bootstrap: Bootstrap = "localhost:9092",
    topic: Topic = "transfers",
    isolation: Level = Isolation.READ_COMMITTED,
    group_protocol: Protocol = GroupProtocol.NONE,
    lines: Lines = False,
    until_stdin_ends: UntilStdinEnds = False,
) -> None:
    """Read the transfers from the beginning, and check them; exit code 1 if a check failed.

    In a group it shares the partitions with the other members, and begins at the committed offsets.
    """
    need("confluent_kafka", extra="demo")
    from odradek.demo.consumer import ConsumeOptions, consume
    from odradek.demo.lines import JsonLines, Spoken
    from odradek.demo.stop import stop_signal

    stopped = stop_signal()
    if until_stdin_ends:
        end_with_stdin()
    options = ConsumeOptions(bootstrap=bootstrap, topic=topic, isolation=isolation, group_protocol=group_protocol)
    raise SystemExit(consume(options, tell=JsonLines() if lines else Spoken(), stopped=stopped))


def _must_be_new(events: Path) -> None:
    if events.exists() and not events.is_file():
        raise UsageError(f"{events} is no file: the demo reads its events again.")
    if events.exists() and events.stat().st_size:
        raise UsageError(f"{events} is not empty: its events would be counted.")
