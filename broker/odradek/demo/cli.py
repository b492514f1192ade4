"""`odradek demo`, `odradek demo produce`, `odradek demo consume`."""

from __future__ import annotations

import signal
import tempfile
import threading
from pathlib import Path
from typing import Annotated

from odradek.cli.commands import Commands, Option
from odradek.cli.extras import need
from odradek.cli.parent import UntilStdinEnds, end_with_stdin
from odradek.cli.usage import UsageError
from odradek.demo.options import ConsumeOptions, DemoOptions, GroupProtocol, ProduceOptions

__all__ = ["add_commands"]

VIOLATED = 1


Lines = Annotated[bool, Option(help="Tell everything as JSON lines instead of counts.")]


def add_commands(commands: Commands) -> None:
    commands.add("demo", play)
    commands.add("demo produce", produce_command)
    commands.add("demo consume", consume_command)


def play(options: DemoOptions) -> None:
    """Brokers, transactional producers that crash, a consumer that watches: did exactly-once hold?

    Exit code 0 if it did, 1 if not. `odradek demo produce` and `odradek demo consume` are the single players.
    """
    need("confluent_kafka", "rich", extra="demo")
    if options.events is not None:
        _must_be_new(options.events)
    if options.consumers > 1 and options.group_protocol is GroupProtocol.NONE:
        raise UsageError("Several consumers need a group: say --group-protocol classic or --group-protocol consumer.")
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


def produce_command(options: ProduceOptions, lines: Lines = False, until_stdin_ends: UntilStdinEnds = False) -> None:
    """Transfer money in transactions; abort now and then, and die now and then, with exit code 137."""
    need("confluent_kafka", extra="demo")
    from odradek.demo.lines import JsonLines, Spoken
    from odradek.demo.producer import produce

    stopped = _stop_signal()
    if until_stdin_ends:
        end_with_stdin()
    raise SystemExit(produce(options, tell=JsonLines() if lines else Spoken(), stopped=stopped))


def consume_command(options: ConsumeOptions, lines: Lines = False, until_stdin_ends: UntilStdinEnds = False) -> None:
    """Read the transfers from the beginning, and check them; exit code 1 if a check failed.

    In a group it shares the partitions with the other members, and begins at the committed offsets.
    """
    need("confluent_kafka", extra="demo")
    from odradek.demo.consumer import consume
    from odradek.demo.lines import JsonLines, Spoken

    stopped = _stop_signal()
    if until_stdin_ends:
        end_with_stdin()
    raise SystemExit(consume(options, tell=JsonLines() if lines else Spoken(), stopped=stopped))


def _must_be_new(events: Path) -> None:
    if events.exists() and not events.is_file():
        raise UsageError(f"{events} is no file: the demo reads its events again.")
    if events.exists() and events.stat().st_size:
        raise UsageError(f"{events} is not empty: its events would be counted.")


def _stop_signal() -> threading.Event:
    """Set by the first SIGTERM or SIGINT; a second SIGINT ends the process as usual."""
    stopped = threading.Event()

    def stop(number: int, _frame: object) -> None:
        stopped.set()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    return stopped
