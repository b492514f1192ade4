"""`python -m tests.kafka`: plays the Kafka project's own tests, and writes docs/kafka-tests.md and kafka-tests.json.

Exit code 0 if every test comes as it is expected to, 1 if not, 2 for wrong arguments.
Where there is no Java or Maven, that is said and nothing is played; with CI=true that is a failure.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from rich.console import Console
from tests.clients.toolchain import BuildFailed, MissingToolchain
from tests.kafka import page
from tests.kafka.expectations import Expectations, Verdict
from tests.kafka.plan import CLASSES, SETTINGS, chosen, in_turn
from tests.kafka.playing import Player, prepare
from tests.kafka.results import Outcome, Results, Test

AT_ONCE = 2
CLASSES_OF_A_JVM = 5
STYLES = {Verdict.PASSED: "green", Verdict.EXPECTED: "yellow", Verdict.SURPRISE: "magenta", Verdict.FAILED: "red"}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.kafka", description=__doc__)
    parser.add_argument("--all", action="store_true", help="every class, not the smaller set of every change")
    by_name = "classes whose name matches, with or without the package: 'PlaintextConsumer*'; may be repeated"
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help=by_name)
    also = "also what is not applicable: it might have become so"
    parser.add_argument("--inapplicable", action="store_true", help=also)
    parser.add_argument("--real", action="store_true", help="with the brokers that come with the tests: the baseline")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, metavar="N", help="JVMs at the same time")
    parser.add_argument("--list", action="store_true", help="say which classes would be played")
    return parser.parse_args()


class Report:
    """Says what comes of each test, and counts."""

    def __init__(self, expectations: Expectations, *, real: bool) -> None:
        self.passed = self.unexpected = 0
        self._expectations = expectations
        self._real = real
        self._console = Console(soft_wrap=True)
        self._lock = threading.Lock()

    def __call__(self, test: Test, outcome: Outcome) -> None:
        verdict = self._expectations.verdict(test, outcome)
        if self._real:
            verdict = Verdict.PASSED if outcome.result in ("passed", "skipped") else Verdict.FAILED
        with self._lock:
            self.passed += verdict is not Verdict.FAILED
            self.unexpected += verdict is Verdict.FAILED
            told = f"{outcome.result:8} {outcome.seconds:5.1f} s  {test}"
            self._console.print(told, style=STYLES[verdict], highlight=False, markup=False)
            if verdict is Verdict.SURPRISE:
                self._console.print("         passes, though it is expected to fail", highlight=False)
            elif verdict is not Verdict.PASSED:
                asked = f" [asked for {outcome.out_of_reach}]" if outcome.out_of_reach else ""
                self._console.print(f"         {outcome.error}{asked}", highlight=False, markup=False)


@dataclasses.dataclass(frozen=True)
class Session:
    """Some classes to be played, some of them in one JVM after the other."""

    class_path: str
    classes: Sequence[str]
    results: Results
    left_out: Collection[Test]
    real: bool

    def play(self, at_once: int, report: Report) -> Path:
        """Play them; the folder with what the processes said."""
        folder = Path(tempfile.mkdtemp(prefix="odradek-kafka-tests-"))
        size = min(CLASSES_OF_A_JVM, -(-len(self.classes) // at_once))
        chunks = list(in_turn(self.classes, size))

        writing = threading.Lock()

        def play_chunk(index: int) -> None:
            mine = folder / str(index)
            mine.mkdir()
            settings = SETTINGS.get(chunks[index][0], {})
            player = Player(self.class_path, mine, self.real, self.left_out, settings)
            for class_, outcomes in player.play(chunks[index], report):
                with writing:  # at once: a run that is ended keeps what it has played
                    self.results.put(class_, outcomes, real=self.real, left_out=self.left_out)
                    self.results.write()

        with ThreadPoolExecutor(at_once) as pool:
            for done in as_completed([pool.submit(play_chunk, index) for index in range(len(chunks))]):
                done.result()
        return folder


def inapplicable(results: Results, expectations: Expectations) -> set[Test]:
    """The tests that are known to say nothing about Odradek."""
    reasons = ((test, expectations.reason(test)) for test, row in results.rows.items() if row.odradek is not None)
    return {test for test, reason in reasons if reason is not None and reason.not_applicable}


def main() -> int:
    asked = arguments()
    classes = list(chosen(everything=asked.all, only=asked.only))
    if not classes:
        print(f"No class matches; the classes are {', '.join(CLASSES)}.", file=sys.stderr)
        return 2
    if asked.list:
        print("\n".join(classes))
        return 0
    try:
        class_path = prepare()
    except (MissingToolchain, BuildFailed) as lacking:
        print(f"Kafka's own tests need Java 17 or newer and Maven: {lacking}.", file=sys.stderr)
        return 1 if os.environ.get("CI") == "true" or isinstance(lacking, BuildFailed) else 0
    expectations, results = Expectations(), Results()
    report = Report(expectations, real=asked.real)
    begun = time.monotonic()
    left_out = set[Test]() if asked.inapplicable or asked.real else inapplicable(results, expectations)
    folder = Session(class_path, classes, results, left_out, asked.real).play(asked.at_once, report)
    page.write(results, expectations)
    print(f"{len(classes)} classes in {time.monotonic() - begun:.0f} s; the brokers and the tests said: {folder}")
    print(f"{report.passed} passed, {report.unexpected} failed")
    return 1 if report.unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
