"""The results as a page for people: docs/kafka-tests.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.kafka.expectations import Expectations, Kind, Reason, Verdict
from tests.kafka.plan import GROUPS
from tests.kafka.results import ROOT, Outcome, Results, Row

__all__ = ["FILE", "TITLES", "write"]

FILE = ROOT / "docs" / "kafka-tests.md"
HEAD = Path(__file__).with_name("head.md")

COLUMNS = ("class", "passed", "failed", "on purpose", "not applicable", "with Kafka's brokers")

TITLES: Mapping[Kind, str] = {
    Kind.OPEN: "What is known to fail",
    Kind.FLAKY: "What fails now and then",
    Kind.DIFFERS: "What differs on purpose",
    Kind.ABSENT: "Not applicable: what Odradek does not have",
    Kind.JVM: "Not applicable: tests that look into the JVM",
}


def write(results: Results, expectations: Expectations, file: Path = FILE) -> None:
    """Write the page."""
    lines = [HEAD.read_text().rstrip(), "", *_totals(list(results.rows.values()), expectations)]
    shown: set[str] = set()
    for group, classes in GROUPS.items():
        new = [class_ for class_ in classes if class_ not in shown]
        shown.update(new)
        lines += ["", f"## {group}", "", _row(COLUMNS), _row(["---"] * len(COLUMNS))]
        lines += [_class_row(class_, results.of(class_), expectations) for class_ in new if results.of(class_)]
    lines += ["", *_reasons(results, expectations)]
    file.write_text("\n".join(lines).rstrip("\n") + "\n")


class _Tally:
    """The tests of some rows, by what they say of Odradek."""

    def __init__(self, rows: Sequence[Row], expectations: Expectations) -> None:
        self.passed = self.failed = self.differ = self.not_applicable = 0
        for row in rows:
            if row.odradek is None or row.odradek.result == "skipped":
                continue
            reason = expectations.reason(row.test)
            if expectations.verdict(row.test, row.odradek) in (Verdict.PASSED, Verdict.SURPRISE):
                self.passed += 1
            elif reason is not None and reason.not_applicable:
                self.not_applicable += 1
            elif reason is not None and reason.kind is Kind.DIFFERS:
                self.differ += 1
            else:
                self.failed += 1


def _totals(rows: Sequence[Row], expectations: Expectations) -> Iterator[str]:
    tally = _Tally(rows, expectations)
    played = tally.passed + tally.failed + tally.differ + tally.not_applicable
    alone = sum(
        row.kafka is not None and row.kafka.result == "passed"
        for row in rows
        if row.odradek is not None and row.odradek.result in ("failed", "hung") and _says_something(row, expectations)
    )
    yield (
        f"Of {played} tests {_verb(tally.passed, 'pass', 'es')}, {_verb(tally.failed, 'fail', 's')}, "
        f"{_verb(tally.differ, 'differ', 's')} on purpose, "
        f"and {tally.not_applicable} {'is' if tally.not_applicable == 1 else 'are'} not applicable."
    )
    yield f"{alone} of those that fail {'passes' if alone == 1 else 'pass'} with Kafka's own brokers."


def _verb(count: int, verb: str, ending: str) -> str:
    return f"{count} {verb}{ending if count == 1 else ''}"


def _says_something(row: Row, expectations: Expectations) -> bool:
    reason = expectations.reason(row.test)
    return reason is None or not (reason.not_applicable or reason.kind is Kind.DIFFERS)


def _class_row(class_: str, rows: Sequence[Row], expectations: Expectations) -> str:
    tally = _Tally(rows, expectations)
    real = [row.kafka for row in rows if row.kafka is not None and row.kafka.result != "skipped"]
    passed = sum(outcome.result == "passed" for outcome in real)
    baseline = f"{passed} of {len(real)}" if real else ""
    short = class_.rpartition(".")[2]
    return _row([short, *map(_number, (tally.passed, tally.failed, tally.differ, tally.not_applicable)), baseline])


def _reasons(results: Results, expectations: Expectations) -> Iterator[str]:
    by_reason: dict[Reason | None, list[Row]] = {}
    for row in sorted(results.rows.values(), key=lambda row: row.test):
        if row.odradek is not None and row.odradek.result in ("failed", "hung"):
            by_reason.setdefault(expectations.reason(row.test), []).append(row)
    if unexpected := by_reason.pop(None, None):
        yield from ("## Failures without a reason", "")
        yield from (f"- `{row.test}`: {_said(row.odradek)}" for row in unexpected)
        yield ""
    for kind, title in TITLES.items():
        reasons = [reason for reason in expectations.reasons.values() if reason.kind is kind and reason in by_reason]
        if reasons:
            yield from (f"## {title}", "")
        for reason in reasons:
            yield from (f"{reason.text} ({len(by_reason[reason])}):", "")
            yield from _tests(by_reason[reason], asked=kind is Kind.JVM)
            yield ""


def _tests(rows: Sequence[Row], *, asked: bool) -> Iterator[str]:
    """One line for each class, with the methods; what they ask for, if that is the reason."""
    by_class: dict[str, dict[str, None]] = {}
    for row in rows:
        name = str(row.test)
        class_, _, method = name.partition(".")
        told = f" ({row.odradek.out_of_reach})" if asked and row.odradek and row.odradek.out_of_reach else ""
        by_class.setdefault(class_, {})[f"{method}{told}"] = None
    for class_, methods in by_class.items():
        yield f"- {class_}: {', '.join(methods)}"


def _said(outcome: Outcome | None) -> str:
    return outcome.error.replace("|", r"\|").replace("<", "&lt;") if outcome is not None else ""


def _number(count: int) -> str:
    return str(count) if count else ""


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
