"""The results of `make conform`, and their pages: docs/conformance.md and docs/conformance/FAMILY.md."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from tests.conform.drivers.families import FAMILIES

from odradek.conform.card import Card, Row, finding
from odradek.conform.play import Outcome
from odradek.conform.scenario import load
from odradek.core.wording import counted

__all__ = ["Findings", "Results", "kept", "read_results", "write_results"]

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "docs" / "conformance.json"
PAGE = ROOT / "docs" / "conformance.md"
FOLDER = ROOT / "docs" / "conformance"
HEAD = Path(__file__).with_name("conformance.head.md")
SIGNS = {
    Outcome.PASS: "✓",
    Outcome.FAIL: "**✗**",
    Outcome.NOT_EXERCISED: "–",
    Outcome.UNSUPPORTED: "·",
    Outcome.UNCLEAR: "?",
}
EXCHANGE_MAX, LINE_MAX = 40, 240
"""Lines of an exchange on a page, and characters of one; `--replay` shows all."""


class Results(Struct, kw_only=True):
    """Everything that was played last."""

    cards: dict[str, dict[str, Card]] = {}
    """By family and release."""
    real: dict[str, dict[str, dict[str, Outcome]]] = {}
    """What failures did in front of a real Kafka: by family, release and scenario."""
    brokers: dict[str, Card] = {}


def kept(card: Card) -> Card:
    """A card without what changes from run to run, times and folders, and without what is too long."""
    return replace(card, rows=[_slim(row) for row in card.rows])


def _slim(row: Row) -> Row:
    """Of what is no finding, only what came of it: its sentence stands with the scenario."""
    if row.outcome is not Outcome.FAIL:
        row = replace(row, about="", says=None, section=None)
    cut = {"exchange": _cut(row.exchange), "verbs": _cut(row.verbs), "why": _cut(row.why)}
    return replace(row, failure=None, seconds=0.0, **cut)


def _cut(lines: list[str]) -> list[str]:
    shown = [line if len(line) <= LINE_MAX else f"{line[:LINE_MAX]}…" for line in lines[:EXCHANGE_MAX]]
    left_out = len(lines) - len(shown)
    return shown if not left_out else [*shown, f"… and {counted(left_out, 'line')} more"]


def read_results() -> Results:
    """The results that there are."""
    return msgspec.json.decode(DATA.read_bytes(), type=Results) if DATA.exists() else Results()


def write_results(results: Results) -> None:
    """Keep them."""
    DATA.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")


class Findings:
    """The pages."""

    def __init__(self, results: Results) -> None:
        self._results = results
        order = {name: index for index, name in enumerate(FAMILIES)}
        self._families = sorted(results.cards, key=lambda name: order.get(name, len(order)))

    def write(self) -> None:
        """Write all of them."""
        PAGE.write_text("\n".join(self.page()) + "\n", encoding="utf-8")
        FOLDER.mkdir(exist_ok=True)
        for family in self._families:
            (FOLDER / f"{family}.md").write_text("\n".join(self.family(family)) + "\n", encoding="utf-8")

    def page(self) -> list[str]:
        """The overview."""
        return [HEAD.read_text(encoding="utf-8").rstrip(), *self._totals(), *self._kips(), *self._brokers()]

    def _cards(self) -> Iterator[tuple[str, str, Card]]:
        for family in self._families:
            for release, card in sorted(self._results.cards[family].items(), key=lambda each: _number(each[0])):
                yield family, release, card

    def _totals(self) -> Iterator[str]:
        yield from ("", "## Clients", "")
        yield "| library | release | pass | fail | unsupported | not exercised | unclear | as Java does | seconds |"
        yield "|---|---|---|---|---|---|---|---|---|"
        for family, release, card in self._cards():
            counts, java = card.counts(java=False), card.counts(java=True)
            shown = (counts[each] for each in (Outcome.PASS, Outcome.FAIL, Outcome.UNSUPPORTED))
            rest = (counts[each] for each in (Outcome.NOT_EXERCISED, Outcome.UNCLEAR))
            as_java = f"{java[Outcome.PASS]} of {sum(java.values())}"
            numbers = " | ".join(map(str, (*shown, *rest)))
            yield f"| [{family}](conformance/{family}.md) | {release} | {numbers} | {as_java} | {card.seconds:.0f} |"

    def _kips(self) -> Iterator[str]:
        cards = list(self._cards())
        for kip, scenarios in groupby(load(), key=lambda each: each.kip):
            yield from ("", f"## KIP-{kip}", "")
            yield f"| scenario | {' | '.join(f'{family} {release}' for family, release, _ in cards)} |"
            yield "|---|" + "---|" * len(cards)
            for scenario in scenarios:
                cells = (self._cell(family, release, card, scenario.id) for family, release, card in cards)
                yield f"| {scenario.id.partition('/')[2]} | {' | '.join(cells)} |"

    def _cell(self, family: str, release: str, card: Card, scenario: str) -> str:
        row = next((each for each in card.rows if each.id == scenario), None)
        if row is None:
            return ""
        real = self._results.real.get(family, {}).get(release, {}).get(scenario)
        return "**✗ᴷ**" if row.outcome is Outcome.FAIL and real is Outcome.FAIL else SIGNS[row.outcome]

    def _brokers(self) -> Iterator[str]:
        brokers = self._results.brokers
        if not brokers:
            return
        driver = next(iter(brokers.values()))
        yield from ("", "## Brokers", "")
        yield (
            f"The scenarios that need no rules, with {driver.library} {driver.version} in front of each broker "
            "(`--against`), judged by its answers and by what is committed."
        )
        yield from ("", f"| scenario | {' | '.join(brokers)} |", "|---|" + "---|" * len(brokers))
        for id_ in dict.fromkeys(row.id for card in brokers.values() for row in card.rows):
            cells = (SIGNS[row.outcome] for card in brokers.values() for row in card.rows if row.id == id_)
            yield f"| {id_} | {' | '.join(cells)} |"
        for name, card in brokers.items():
            for row in card.rows:
                if row.outcome is not Outcome.PASS:
                    yield from ("", f"{name}, {row.id}: {row.why[0] if row.why else ''}")

    def family(self, family: str) -> list[str]:
        """The findings of a family: those of the newest release whole, and what an older one had beside them."""
        cards = sorted(self._results.cards[family].items(), key=lambda each: _number(each[0]))
        newest, card = cards[-1]
        lines = [
            f"# {card.library}",
            "",
            "Findings of `odradek conform`; made by `make conform`, see [conformance.md](../conformance.md).",
        ]
        lines += ["", f"## {newest}"]
        if not card.fails:
            lines += ["", "Nothing failed."]
        for row in card.fails:
            lines += ["", *self._finding(family, newest, row)]
        lines += _others(card)
        for release, older in cards[:-1]:
            lines += ["", f"## {release}", ""]
            known = {row.id for row in card.fails}
            lines += [f"- {row.id}{' (as above)' * (row.id in known)}: {row.why[0]}" for row in older.fails]
            if not older.fails:
                lines.append("Nothing failed.")
        return lines

    def _finding(self, family: str, release: str, row: Row) -> list[str]:
        head, *rest = finding(row)
        lines = [f"#{head}", *rest]
        real = self._results.real.get(family, {}).get(release, {}).get(row.id)
        told = {
            None: "It needs a rule of Odradek, or a look at requests, and was not played in front of Apache Kafka.",
            Outcome.FAIL: "The same in front of Apache Kafka.",
        }.get(real, f"In front of Apache Kafka the outcome was: {real.value if real else ''}.")
        again = f"Again: `odradek conform --only {row.id} -- ./driver`"
        return [*lines, "", told, "", again]


def _others(card: Card) -> list[str]:
    lines = []
    for outcome in (Outcome.UNCLEAR, Outcome.NOT_EXERCISED, Outcome.UNSUPPORTED):
        rows = [row for row in card.rows if row.outcome is outcome]
        if rows:
            lines += ["", f"### {outcome.value.capitalize()}", ""]
            lines += [f"- {row.id}: {row.why[0] if row.why else ''}" for row in rows]
    return lines


def _number(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".") if part.isdigit())
