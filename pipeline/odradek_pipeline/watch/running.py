"""The loop of a watch: look, fold, tell, remember; and how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO

import msgspec

from odradek.cli.usage import UsageError
from odradek.net.metrics_page import MetricsPage
from odradek_pipeline.access.config import PLAINTEXT, ClientConfig
from odradek_pipeline.watch.brokers import Brokers
from odradek_pipeline.watch.look import take_look
from odradek_pipeline.watch.names import Names, coordinator_of
from odradek_pipeline.watch.rights import missing_rights
from odradek_pipeline.watch.show import Numbers, Picture, lines_of, table_of
from odradek_pipeline.watch.watcher import Incident, Memory, Watcher
from odradek_pipeline.wording import counted

__all__ = ["Settings", "watch_cluster"]

STATE, INCIDENTS = "watch.json", "incidents.jsonl"
BAD, NOT_LOOKED = 1, 2


@dataclass(frozen=True, slots=True)
class Settings:
    """What a watch was asked for; times in seconds."""

    bootstrap: str
    out: Path
    topics: frozenset[str] = frozenset()
    interval: float = 2.0
    stall: float = 10.0
    seconds: float | None = None
    once: bool = False
    events: Path | None = None
    metrics: tuple[str, int] | None = None
    config: ClientConfig = PLAINTEXT


def watch_cluster(settings: Settings) -> int:
    """Watch until told to end; the exit code: 0 healthy, 1 something was bad, 2 not everything could be looked at."""
    memory = _remembered(settings.out / STATE)
    brokers = Brokers(settings.bootstrap, config=settings.config)
    try:
        if not brokers.begin():
            why = "; ".join(f"{address}: {why}" for address, why in brokers.away.items())
            raise UsageError(f"Nobody answers at {settings.bootstrap}: {why}.")
        known, found = memory.cluster_id, brokers.layout.cluster_id
        if known and found and known != found:
            raise UsageError(f"{settings.out} is of another cluster: {known}, where {settings.bootstrap} is {found}.")
        missing = missing_rights(brokers, settings.topics)
        if missing:
            login = settings.config.login
            who = login.user if login is not None else "This user"
            raise UsageError(f"{who} may not see everything: it lacks {', '.join(missing)}.")
        _check_topics(settings, brokers)
        return _Watch(settings, brokers, Watcher(settings.bootstrap, int(settings.stall * 1000), memory)).run()
    finally:
        brokers.close()


def _check_topics(settings: Settings, brokers: Brokers) -> None:
    there = {topic for topic, _ in brokers.layout.leaders}
    for topic in sorted(settings.topics):
        if topic not in there:
            raise UsageError(f"There is no topic {topic} in {settings.bootstrap}.")


def _remembered(path: Path) -> Memory:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Memory)
    except FileNotFoundError:
        return Memory()
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}.") from None


class _Watch:
    """One run."""

    def __init__(self, settings: Settings, brokers: Brokers, watcher: Watcher) -> None:
        self.settings, self.brokers, self.watcher = settings, brokers, watcher
        self.names = Names()
        self.picture = Picture(names=self.names)
        self.failures = _Failures(settings.events) if settings.events is not None else None
        self.ended = threading.Event()
        self.is_whole = False
        self.unsure = ""
        """Why something could not be confirmed in this look."""

    def run(self) -> int:
        until = None if self.settings.seconds is None else time.monotonic() + self.settings.seconds
        self.settings.out.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as exits:
            exits.enter_context(_signals(self.ended))
            self.log = exits.enter_context((self.settings.out / INCIDENTS).open("a", encoding="utf-8"))
            if self.settings.metrics is not None:
                page = MetricsPage(Numbers(self.picture), host=self.settings.metrics[0], port=self.settings.metrics[1])
                exits.callback(page.close)
                print(f"metrics at http://{self.settings.metrics[0]}:{page.port}/metrics", flush=True)
            show = exits.enter_context(_screen())
            for one in self.watcher.incidents:
                show.tell([f"still open from before: {one.incident}: {one.what}"])
            while True:
                began = time.monotonic()
                self.look(show)
                left = self.settings.interval - (time.monotonic() - began)
                if self.settings.once or (until is not None and time.monotonic() + left > until):
                    break
                if self.ended.wait(max(0.0, left)):
                    break
        return self.code()

    def look(self, show: _Screen) -> None:
        """One look, and everything that follows from it."""
        look = take_look(self.brokers, time.time_ns() // 1_000_000, self.settings.topics)
        self.picture.looks += 1
        self.is_whole = look is not None and look.is_whole
        if look is None:
            show.tell([f"nobody answers at {self.settings.bootstrap}"] if self.picture.look is not None else [])
            self.picture.look = None
            show.draw(self.picture)
            return
        self.names.read(self.brokers)
        self.unsure = ""
        if self.failures is not None:
            self.picture.failures = self.failures.read()
        for one in self.watcher.see(look, self.names, self.confirm):
            show.tell(lines_of(one))
            json.dump(msgspec.to_builtins(one), self.log)
            self.log.write("\n")
        self.log.flush()
        if self.unsure:
            self.is_whole = False
        self.picture.look, self.picture.incidents = look, tuple(self.watcher.incidents)
        self.remember()
        show.draw(self.picture)

    def confirm(self, one: Incident) -> bool:
        """Whether the partitions' leaders and the coordinator still say so, asked once more."""
        opened, _ = self.brokers.producers({(topic, partition) for topic, partition, _ in one.places})
        open_now = {(*opened.at, opened.start_offset) for opened in opened if opened.producer_id == one.producer_id}
        if not all(place in open_now for place in one.places):
            return False
        if not one.transactional_id:
            # Who is not in the coordinators' log has expired there, if all of it could be read.
            if not self.names.is_whole:
                self.unsure = "the coordinators' log could not be read to its end"
            return self.names.is_whole
        _, leader = coordinator_of(one.transactional_id, self.brokers.layout)
        under_way, doubt = self.brokers.described(leader, one.transactional_id)
        self.unsure = self.unsure or doubt
        held = {at for found in under_way if found.producer_id == one.producer_id for at in found.partitions}
        return not doubt and not any((topic, partition) in held for topic, partition, _ in one.places)

    def remember(self) -> None:
        """Put down what outlasts this process; whole or not at all."""
        path = self.settings.out / STATE
        beside = path.with_suffix(".new")
        beside.write_bytes(msgspec.json.encode(self.watcher.memory))
        os.replace(beside, path)

    def code(self) -> int:
        """The exit code, with a word to it."""
        bad = [one for one in self.watcher.incidents if one.severity == "bad"]
        if bad or self.watcher.ever_bad:
            print(f"watch: bad; {counted(len(bad), 'open incident')}; {self.settings.out / INCIDENTS}")
            return BAD
        if not self.is_whole:
            why = self.unsure or (self.picture.look.doubts if self.picture.look is not None else "")
            print("watch: not everything could be looked at" + (f": {why}" if why else ""))
            return NOT_LOOKED
        print(f"watch: ok; {counted(self.picture.looks, 'look')}")
        return 0


@dataclass(slots=True)
class _Failures:
    """Verifications that failed, from the end of an event log on that a broker is writing."""

    path: Path
    counts: dict[str, int] = field(default_factory=dict)
    _position: int = -1
    _rest: bytes = b""

    def read(self) -> dict[str, int]:
        """What has been counted since the watch began."""
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                if self._position < 0:
                    self._position = size
                if size < self._position:  # written anew
                    self._position, self._rest = 0, b""
                file.seek(self._position)
                content = self._rest + file.read()
                self._position = file.tell()
        except OSError:
            return self.counts
        *lines, self._rest = content.split(b"\n")
        counts = dict(self.counts)
        for line in lines:
            if b'"verify_end"' in line:
                name = _failure(line)
                if name:
                    counts[name] = counts.get(name, 0) + 1
        self.counts = counts
        return counts


def _failure(line: bytes) -> str:
    """The error of a verification that failed; empty for one that did not, and for what cannot be read."""
    try:
        event = json.loads(line)
    except ValueError:
        return ""
    if not isinstance(event, dict) or event.get("kind") != "verify_end":
        return ""
    return str(event.get("error", "")) if event.get("verdict") == "refused" else ""


@contextlib.contextmanager
def _signals(ended: threading.Event) -> Iterator[None]:
    """SIGINT and SIGTERM end the watch behind the look that it is in."""

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    if threading.current_thread() is not threading.main_thread():  # only that one may take signals
        yield
        return
    before = {one: signal.signal(one, end) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


@dataclass(slots=True)
class _Screen:
    """Lines, and on a terminal the table below them."""

    tell_lines: Callable[[str], None]
    draw_picture: Callable[[Picture], None] | None

    def tell(self, lines: Iterator[str] | list[str]) -> None:
        for line in lines:
            self.tell_lines(line)

    def draw(self, picture: Picture) -> None:
        if self.draw_picture is not None:
            self.draw_picture(picture)


@contextlib.contextmanager
def _screen(stream: IO[str] | None = None) -> Iterator[_Screen]:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    stream = stream or sys.stdout
    if not stream.isatty():
        console = Console(file=stream, width=120)
        last: list[Picture] = []

        def keep(picture: Picture) -> None:
            last[:] = [picture]

        def tell(line: str) -> None:
            print(line, file=stream, flush=True)

        yield _Screen(tell, keep)
        for picture in last:
            console.print(table_of(picture))
            for sentence in picture.why:
                tell(sentence)
        return
    console = Console(file=stream)
    with Live(console=console, auto_refresh=False) as live:

        def draw(picture: Picture) -> None:
            live.update(Group(table_of(picture), *map(Text, picture.why)), refresh=True)

        def say(line: str) -> None:
            console.print(line, soft_wrap=True, highlight=False, markup=False)

        yield _Screen(say, draw)
