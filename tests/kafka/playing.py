"""Plays classes of Kafka's tests: a JVM that has the tests, and beside it a driver that has the clusters."""

from __future__ import annotations

import base64
import dataclasses
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from tests.clients.toolchain import jars, java_classes, need, once
from tests.kafka.results import Event, Outcome, Test

__all__ = ["Heard", "Player", "prepare"]

HERE = Path(__file__).parent
SOURCES = HERE / "java"
TEST_SECONDS = 120
"""Beyond it JUnit interrupts a test that has no limit of its own."""
SILENCE_SECONDS = 200
"""Beyond it a JVM that tells of nothing is ended, and its class goes on in a new one."""
POLL_SECONDS = 0.5
LEFT_OUT = "left out"
KEYS = 40
KEY_BITS = 2048

Told = Callable[[Test, Outcome], None]


def prepare() -> str:
    """The class path: the jars, our classes, our resources. Raises MissingToolchain or BuildFailed."""
    need("java", "javac", "mvn")
    libraries = jars(HERE / "pom.xml")
    return f"{java_classes('kafka-tests', sorted(SOURCES.rglob('*.java')), libraries)}:{SOURCES}"


def keys() -> Path:
    """A file of RSA keys for the tests' certificates, made once: PKCS#8, a line of base64 for each."""

    def build(folder: Path) -> None:
        made = (rsa.generate_private_key(public_exponent=65537, key_size=KEY_BITS) for _ in range(KEYS))
        told = (each.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()) for each in made)
        (folder / "keys").write_text("".join(f"{base64.b64encode(each).decode()}\n" for each in told))

    return once(f"kafka-tests-keys-{KEYS}-{KEY_BITS}", build, about_s=5) / "keys"


class Heard:
    """What a JVM has told so far."""

    def __init__(self, played: set[str] | None = None, told: Told | None = None) -> None:
        self.played = set[str]() if played is None else played
        """Ids of what has ended: a JVM after this one leaves it out."""
        self.outcomes: dict[str, dict[Test, Outcome]] = {}
        self.at = ""
        """The class that was spoken of last."""
        self._begun: Event | None = None
        self._told = told

    def note(self, event: Event) -> None:
        """Take in what it tells."""
        self.at = event.class_ or self.at
        match event.event:
            case "begun":
                self._begun = event
            case "ended" | "container":
                self._end(event, Outcome.of(event))
            case "skipped" if event.message != LEFT_OUT:
                self._end(event, Outcome("skipped", error=event.message or ""))

    def give_up(self) -> None:
        """It tells nothing more: what it was at has hung."""
        if self._begun is not None:
            self._end(self._begun, Outcome("hung", error="said nothing more, and was ended"))

    def _end(self, event: Event, outcome: Outcome) -> None:
        test = Test.of(event)
        self.played.add(event.id)
        self._begun = None
        self.outcomes.setdefault(test.class_, {})[test] = outcome
        if self._told is not None:
            self._told(test, outcome)


@dataclasses.dataclass
class Player:
    """One JVM after the other, each for some classes."""

    class_path: str
    folder: Path
    """For what the JVMs and the drivers say."""
    real: bool = False
    left_out: Collection[Test] = ()
    """What is not to be played."""
    settings: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """What every broker of Odradek's is told beyond what the tests say."""

    def play(self, classes: Sequence[str], told: Told) -> Iterator[tuple[str, dict[Test, Outcome]]]:
        """Each class with what came of its tests; `told` hears of each test as it ends."""
        waiting, heard = list(classes), Heard(told=told)
        while waiting:
            before, heard.at = len(heard.played), waiting[0]
            complete = self._run(waiting, heard)
            if not complete and len(heard.played) == before:
                # Not even a test of it had begun: it cannot be played at all, and the others go on without it.
                heard.outcomes.setdefault(heard.at, {})[Test(heard.at, "(class)")] = Outcome(
                    "hung", error="the JVM ended"
                )
                done = waiting.index(heard.at) + 1
            else:
                done = len(waiting) if complete else waiting.index(heard.at)
            for class_ in waiting[:done]:
                yield class_, heard.outcomes.pop(class_, {})
            waiting = waiting[done:]

    def _run(self, classes: Sequence[str], heard: Heard) -> bool:
        """One JVM, until it ends or has been silent for too long; whether it came to its end."""
        driver = _Driver(self.folder / "driver.log", self.settings, start=not self.real)
        with tempfile.TemporaryDirectory(prefix="odradek-kafka-tests-") as scratch, driver:
            events = self.folder / f"events-{len(list(self.folder.glob('events-*')))}"
            events.touch()
            (Path(scratch) / "played").write_text("\n".join(sorted(heard.played)))
            names = (
                f"{test.class_} {test.method} {test.parameters.partition(' ')[0]}".strip() for test in self.left_out
            )
            (Path(scratch) / "left-out").write_text("\n".join(names))
            jvm = self._jvm(Path(scratch), events, classes, driver)
            try:
                complete = _follow(jvm, events, heard)
            finally:
                jvm.kill()
                jvm.wait()
        if not complete:
            heard.give_up()
        return complete

    def _jvm(self, scratch: Path, events: Path, classes: Sequence[str], driver: _Driver) -> subprocess.Popen[bytes]:
        options = ["-Xmx1536m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:off"]
        options += [f"-Djava.io.tmpdir={scratch}", f"-Dlog4j2.configurationFile={SOURCES / 'log4j2.properties'}"]
        options += [f"-Dodradek.played={scratch / 'played'}", f"-Dodradek.left.out={scratch / 'left-out'}"]
        options += [f"-Dodradek.timeout={TEST_SECONDS}", f"-Dodradek.keys={keys()}"]
        options += [f"-Dodradek.driver={driver.port}"] if driver.port else []
        command = ["java", *options, "-cp", self.class_path, "odradek.Main", str(events)]
        with (self.folder / "jvm.log").open("ab") as log:
            return subprocess.Popen([*command, *classes], stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def _follow(jvm: subprocess.Popen[bytes], events: Path, heard: Heard) -> bool:
    last, running, line = time.monotonic(), True, ""
    with events.open() as lines:
        while running:
            running = jvm.poll() is None  # asked before reading, so that its last lines are read
            while part := lines.readline():
                line += part
                if line.endswith("\n"):
                    last = time.monotonic()
                    heard.note(msgspec.json.decode(line, type=Event))
                    line = ""
            if time.monotonic() - last > SILENCE_SECONDS:
                return False
            time.sleep(POLL_SECONDS)
    return jvm.returncode == 0


class _Driver:
    """The process that has the clusters; none where Kafka's own brokers are played."""

    def __init__(self, log: Path, settings: Mapping[str, str], *, start: bool) -> None:
        self.port = ""
        self._process: subprocess.Popen[str] | None = None
        if start:
            with log.open("a") as said:
                told = (f"{key}={value}" for key, value in settings.items())
                command = [sys.executable, "-m", "tests.kafka.driver", *told]
                paths = os.pathsep.join(path for path in sys.path if path)
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=said,
                    text=True,
                    env=os.environ | {"PYTHONPATH": paths},
                )

    def __enter__(self) -> _Driver:
        if self._process is not None:
            assert self._process.stdout is not None
            self.port = self._process.stdout.readline().strip()
            assert self.port, "the driver does not start: see driver.log"
        return self

    def __exit__(self, *raised: object) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
