"""`odradek replay`: its options."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from odradek.cli import offered
from odradek.cli.commands import Argument, Commands, Option
from odradek.cli.parent import UntilStdinEnds
from odradek.cli.usage import UsageError

if TYPE_CHECKING:
    from odradek.broker import EventSink, Logger
    from odradek.net.cluster import RunningCluster
    from odradek.net.serve import Hosting, Ports
    from odradek.replay.replay import Replay

__all__ = ["add_commands"]

END = "end"


def replay(
    file: Annotated[Path, Argument(help="A recording: odradek serve --record FILE.")],
    until: Annotated[
        str | None,
        Option(
            metavar="SEQ",
            help="Stop behind this input, or behind the last (end), and serve clients from there until SIGTERM.",
        ),
    ] = None,
    list_: Annotated[bool, Option(name="--list", help="Print every input with its number, and play nothing.")] = False,
    port: Annotated[
        int | None,
        Option(min=0, max=65535, help="With --until: the first port, in place of those recorded; 0 picks free ones."),
    ] = None,
    events: Annotated[Path | None, Option(help="Append every event to this file, as JSON lines.")] = None,
    event_bodies: Annotated[
        bool, Option(help="Write into it what requests and responses say, but for large ones and secrets.")
    ] = False,
    control: Annotated[
        str | None,
        Option(metavar="[HOST:]PORT", help="With --until: let the cluster be driven over HTTP there."),
    ] = None,
    control_token: Annotated[
        str | None, Option(help="Token for clients of the hub; needed beyond loopback. Else $ODRADEK_HUB_TOKEN.")
    ] = None,
    dialect: Annotated[
        str | None,
        Option(
            metavar="NAME|DIR", names=offered.dialects, help="The folder of its dialect, where that is one of your own."
        ),
    ] = None,
    log_level: Annotated[str, Option(names=offered.log_levels, help="debug, info, warning or error.")] = "warning",
    json: Annotated[bool, Option(help="Log as JSON lines.")] = False,
    until_stdin_ends: UntilStdinEnds = False,
) -> None:
    """Play a recording, and compare every answer of its brokers, byte for byte; exit code 1 where one differs."""
    from odradek.cli.logs import make_logger
    from odradek.replay.replay import Replay

    if event_bodies and events is None:
        raise UsageError("--event-bodies goes with --events.")
    if until is None and (port is not None or control is not None):
        raise UsageError("--port and --control go with --until.")
    if list_:
        _print_list(file)
        return
    try:
        log = make_logger(level=log_level, as_json=json)
    except ValueError as error:
        raise UsageError(str(error)) from None
    recording = Replay(file, dialect=dialect)
    for warning in recording.warnings:
        print(warning)
    if until is not None:
        _serve(recording, _seq(until), log, port, events, event_bodies, control, control_token, until_stdin_ends)
        return
    sink = None
    with ExitStack() as exits:
        if events is not None:
            from odradek.net.event_log import EventLog  # few replays have events

            sink = exits.enter_context(closing(EventLog(events, log, bodies=event_bodies, now_ms=recording.now_ms)))
        played = asyncio.run(recording.play(log, events=sink))
    print(played.text)
    if sink is not None and sink.lost is not None:
        raise UsageError(sink.lost)
    raise SystemExit(0 if played.difference is None else 1)


def _serve(
    recording: Replay,
    until: int | None,
    log: Logger,
    port: int | None,
    events: Path | None,
    event_bodies: bool,
    control: str | None,
    control_token: str | None,
    until_stdin_ends: bool,
) -> None:
    """Play, and go on with clients of today. Raises `SystemExit` where an answer differs on the way."""
    from odradek.net.ready import print_ready
    from odradek.net.serve import ServeOptions, alone
    from odradek.net.serve import serve as serve_until_stopped

    async def start(sink: EventSink | None, _: Ports) -> RunningCluster:
        played = await recording.play(log, until=until, events=sink)
        print(played.text, flush=True)
        if played.difference is not None:
            raise SystemExit(1)
        await recording.go_live(played, port=port)
        return played.cluster

    options = ServeOptions(
        config=recording.config,
        host=recording.head.host,
        events=events,
        event_bodies=event_bodies,
        begin=start,
        now_ms=recording.now_ms,
    )
    hosting: Hosting = alone
    tell_hub = None
    if control is not None:
        from odradek.control.cli import hosting_of

        hosting, tell_hub = hosting_of(control, control_token, None, log)
    ready = partial(print_ready, tell_hub=tell_hub, prepared=None, until_stdin_ends=until_stdin_ends)
    serve_until_stopped(options, log=log, ready=ready, hosting=hosting)


def _seq(until: str) -> int | None:
    """The number of an input; None for the last."""
    if until == END:
        return None
    if not until.isdecimal() or int(until) < 1:
        raise UsageError(f"--until takes the number of an input, from 1, or the word {END}, not {until}.")
    return int(until)


def _print_list(file: Path) -> None:
    from odradek.net.recording_file import Reader
    from odradek.replay.listing import lines_of

    for line in lines_of(Reader(file)):
        print(line)


def add_commands(commands: Commands) -> None:
    commands.add("replay", replay)
