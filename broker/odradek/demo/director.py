"""`odradek demo`: brokers, producers that crash, a consumer that checks, and a verdict in the end."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import msgspec
from anyio.abc import Process
from anyio.to_thread import run_sync

from odradek.cli.usage import READY
from odradek.demo.board import Board
from odradek.demo.judge import Verdict, judge
from odradek.demo.lines import decode_line
from odradek.demo.log import LogReader
from odradek.demo.options import DemoOptions
from odradek.demo.processes import command, lines, run_until, spawned
from odradek.demo.producer import CRASHED
from odradek.demo.watching import EventTail, read_metrics

__all__ = ["DemoFailed", "consume_command", "direct", "produce_command"]

TOPIC = "transfers"
RESTART_S = 0.3
LOOK_S = 0.25
DRAW_S = 0.25
DRAIN_S = 30.0
POLL_S = 0.05
STOPS = (signal.SIGINT, signal.SIGTERM)


def produce_command(options: DemoOptions, bootstrap: str, *, number: int, life: int) -> list[str]:
    seeded = () if options.seed is None else ("--seed", (options.seed * 1000 + number) * 1000 + life)
    return command(
        *("demo", "produce", "--lines", "--bootstrap", bootstrap, "--topic", TOPIC),
        *("--transactional-id", f"till-{number}", "--rate", options.rate),
        *("--abort-every", options.abort_every, "--crash-every", options.crash_every, *seeded),
    )


def consume_command(options: DemoOptions, bootstrap: str) -> list[str]:
    return command(
        *("demo", "consume", "--lines", "--bootstrap", bootstrap, "--topic", TOPIC),
        *("--isolation", options.isolation, "--group-protocol", options.group_protocol),
    )


class DemoFailed(Exception):
    """The demo could not be played to its end; the text is one clear sentence."""


async def direct(options: DemoOptions, *, work: Path, show: Callable[[Board, str], None]) -> tuple[Board, Verdict]:
    """Play the demo; `show` is called several times a second with the board and the name of the act.

    SIGINT and SIGTERM end it early, with a verdict; a second one ends it at once, with `DemoFailed`.
    `work` is a folder for the event file and the logs of the processes.
    """
    return await _Director(options, work, show).play()


class _Director:
    def __init__(self, options: DemoOptions, work: Path, show: Callable[[Board, str], None]) -> None:
        self._options = options
        self._work = work
        self._show = show
        self._board = Board(time.monotonic)
        self._act = "starting"
        self._events = options.events or work / "events.jsonl"
        self._tail = EventTail(self._events)
        self._last_call = anyio.Event()
        self._curtain = anyio.Event()
        self._bootstrap = ""
        self._metrics_port = 0

    async def play(self) -> tuple[Board, Verdict]:
        try:
            return await self._play()
        except* DemoFailed as failures:
            raise failures.exceptions[0] from None
        raise AssertionError("a verdict or an error")

    async def _play(self) -> tuple[Board, Verdict]:
        async with self._broker(), anyio.create_task_group() as tasks:
            tasks.start_soon(self._heed_signals)
            tasks.start_soon(self._look)
            tasks.start_soon(self._draw)
            async with anyio.create_task_group() as players:
                for number in range(1, self._options.consumers + 1):
                    players.start_soon(self._consumer, number)
                players.start_soon(self._producers)
                players.start_soon(self._call_time)
            self._act = "judging"
            verdict = await run_sync(self._judge)
            tasks.cancel_scope.cancel()
        self._read_events()
        return self._board, verdict

    @asynccontextmanager
    async def _broker(self) -> AsyncIterator[None]:
        options = self._options
        self._events.touch()
        serve = command(
            *("serve", "--port", options.port, "--brokers", options.brokers, "--topic"),
            *(f"{TOPIC}:{options.partitions}", "--metrics-port", options.metrics_port, "--events", self._events),
            *("--transaction-version", options.transaction_version, "--json"),
        )
        async with spawned(serve, stderr=subprocess.PIPE) as process, anyio.create_task_group() as tasks:
            tasks.start_soon(self._hear_broker, process)
            async for line in lines(process.stdout):
                self._bootstrap = line.decode().removeprefix(READY)
                break
            else:
                await process.wait()
                raise DemoFailed(f"The broker did not start: {'; '.join(self._board.troubles)}")
            tasks.start_soon(self._miss_broker, process)
            yield
            tasks.cancel_scope.cancel()

    async def _hear_broker(self, process: Process) -> None:
        async for line in lines(process.stderr):
            try:
                said = msgspec.json.decode(line)
            except msgspec.DecodeError:  # a sentence before the end, or a traceback
                self._board.trouble(line.decode(errors="replace"))
                continue
            if said["event"] == "metrics_served":
                self._metrics_port = said["port"]
            elif said.get("level") in ("warning", "error"):
                self._board.trouble(f"broker: {said['event']}")

    async def _miss_broker(self, process: Process) -> None:
        code = await process.wait()
        raise DemoFailed(f"The broker ended by itself, with exit code {code}: {'; '.join(self._board.troubles)}")

    async def _look(self) -> None:
        """Events, metrics and offsets, every quarter of a second."""
        with await run_sync(LogReader, self._bootstrap, TOPIC) as reader:
            while True:
                with suppress(OSError):  # while the brokers shut down
                    self._board.note_marks(await run_sync(reader.marks))
                    url = f"http://127.0.0.1:{self._metrics_port}/metrics"
                    self._board.note_metrics(await run_sync(read_metrics, url))
                self._read_events()
                await anyio.sleep(LOOK_S)

    def _read_events(self) -> None:
        for event in self._tail.read():
            self._board.note_event(event)

    async def _producers(self) -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(1, self._options.producers + 1):
                tasks.start_soon(self._supervise, number)
        self._act = "reading to the end"
        await self._drain()
        self._curtain.set()

    async def _supervise(self, number: int) -> None:
        """Start a producer whenever it has died; the last start only ends the open transaction of the one before."""
        life = 0
        while not self._last_call.is_set():
            if life:
                with anyio.move_on_after(RESTART_S):
                    await self._last_call.wait()
                self._board.restarts += 1
            await self._live(number, life, self._last_call)
            life += 1
        await self._live(number, life, anyio.Event(), "--transactions", "0")

    async def _live(self, number: int, life: int, stop: anyio.Event, *more: str) -> None:
        board = self._board
        produce = [*produce_command(self._options, self._bootstrap, number=number, life=life), *more]
        log = self._work / f"producer-{number}.log"
        code = await run_until(stop, produce, lambda line: board.hear(number, decode_line(line)), log)
        board.ledger.producer_is_gone(number)
        if code == CRASHED:
            board.crashes += 1
        elif code and not (stop.is_set() and code == -signal.SIGTERM):  # the signal came before the handler
            board.trouble(f"till-{number} ended with exit code {code}: {_last_line(log)}")

    async def _consumer(self, number: int) -> None:
        consume = consume_command(self._options, self._bootstrap)
        log = self._work / f"consumer-{number}.log"
        code = await run_until(self._curtain, consume, lambda line: self._board.hear_consumer(decode_line(line)), log)
        if not self._curtain.is_set():
            raise DemoFailed(f"A consumer ended by itself, with exit code {code}: {_last_line(log)}")

    async def _drain(self) -> None:
        """Wait until every transaction has ended and the consumer is at the end, or for too long."""
        with anyio.move_on_after(DRAIN_S), await run_sync(LogReader, self._bootstrap, TOPIC) as reader:
            while True:
                self._board.note_marks(await run_sync(reader.marks))
                if self._board.behind == 0 and not self._stuck():
                    return
                await anyio.sleep(POLL_S)

    def _stuck(self) -> list[str]:
        at = self._board.read_up_to
        return [
            f"partition {partition} at {at.get(partition, 0)} of {marks.high_watermark}"
            for partition, marks in self._board.marks.items()
            if at.get(partition, 0) < marks.high_watermark
        ]

    def _judge(self) -> Verdict:
        board = self._board
        with LogReader(self._bootstrap, TOPIC) as reader:
            log = reader.read()
        return judge(board.ledger.promises, log, board.seen, noticed=board.noticed, stuck=self._stuck())

    async def _call_time(self) -> None:
        self._act = "playing"
        with anyio.move_on_after(self._options.seconds):
            await self._last_call.wait()
        self._last_call.set()
        self._act = "ending"

    async def _heed_signals(self) -> None:
        with anyio.open_signal_receiver(*_signals()) as signals:
            async for received in signals:
                if received not in STOPS:
                    raise DemoFailed("The terminal went away, so the check is not over.")
                if self._last_call.is_set():
                    raise DemoFailed("Told to stop twice, so the check is not over.")
                self._last_call.set()

    async def _draw(self) -> None:
        while True:
            self._board.sample()
            self._show(self._board, self._act)
            await anyio.sleep(DRAW_S)


def _signals() -> tuple[signal.Signals, ...]:
    """The signals that end the demo: SIGHUP is one of them, unless it was started with nohup."""
    hangup = signal.Signals.__members__.get("SIGHUP")  # Windows has none
    return STOPS if hangup is None or signal.getsignal(hangup) is signal.SIG_IGN else (*STOPS, hangup)


def _last_line(log: Path) -> str:
    said = log.read_text(errors="replace").split("\n") if log.exists() else []
    return next((line for line in reversed(said) if line), "it said nothing")
