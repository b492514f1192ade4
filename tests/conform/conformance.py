"""The results of `make conform`, and their pages: docs/conformance.md and docs/conformance/FAMILY.md.

What is kept of a card is what came of each scenario, and one sentence where it was no pass: nothing that differs from
run to run, so that playing again changes the repository only where an outcome has changed. The calls and requests of a
finding stand on the page of its family alone; they are taken over from there as long as the finding is the same.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.resources import files
from itertools import groupby
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from tests.conform.drivers.families import FAMILIES

from odradek.conform import scenarios as texts
from odradek.conform.card import Card, Row, finding
from odradek.conform.play import Outcome
from odradek.conform.scenario import Basis, load
from odradek.core.wording import counted

__all__ = ["Findings", "Played", "Results", "played", "read_results", "state_of_scenarios", "write_results"]

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
_OF_BROKERS_ALONE = re.compile(r"ALLOCATE_PRODUCER_IDS")


class Played(Struct, kw_only=True, omit_defaults=True):
    """What is kept of a card: everything that was played and is not named here has passed."""

    library: str
    version: str
    language: str
    scenarios: str
    """The state of the scenarios that it was played with."""
    other: dict[Outcome, dict[str, list[str]]] = {}
    """By outcome and reason, the ids."""
    real: dict[str, Outcome] = {}
    """What failures did in front of a real Kafka."""

    def why(self, outcome: Outcome) -> dict[str, str]:
        """The reasons by scenario, in the order of their ids."""
        return dict(sorted((id_, why) for why, ids in self.other.get(outcome, {}).items() for id_ in ids))

    def outcomes(self, ids: list[str]) -> dict[str, Outcome]:
        """Of all scenarios that were played, which are these."""
        others = {id_: outcome for outcome in self.other for id_ in self.why(outcome)}
        return {id_: others.get(id_, Outcome.PASS) for id_ in ids}


class Results(Struct, kw_only=True):
    """Everything that was played last."""

    states: dict[str, list[str]] = {}
    """The ids of the scenarios in each state that a card was played with."""
    cards: dict[str, dict[str, Played]] = {}
    """By family and release."""
    brokers: dict[str, Played] = {}

    def keep(self, card: Card, real: Mapping[str, Outcome] | None = None) -> Played:
        """What is kept of a card; the states that no card has any more are forgotten when all is written."""
        state = state_of_scenarios() + ("-against" if card.against else "")
        self.states[state] = [row.id for row in card.rows]
        return played(card, state, real or {})


def state_of_scenarios() -> str:
    """A short digest of the scenarios' files: cards with the same one are comparable."""
    every = sorted((each.name, each.read_bytes()) for each in files(texts).iterdir() if each.name.endswith(".toml"))
    return hashlib.sha256(b"".join(text for _, text in every)).hexdigest()[:8]


def played(card: Card, state: str, real: Mapping[str, Outcome]) -> Played:
    """A card without what changes from run to run."""
    other: dict[Outcome, dict[str, list[str]]] = {}
    for row in card.rows:
        if row.outcome is not Outcome.PASS:
            other.setdefault(row.outcome, {}).setdefault(_reason(row), []).append(row.id)
    about = {"library": card.library, "version": card.version, "language": card.language}
    return Played(**about, scenarios=state, other=other, real=dict(real))


def _reason(row: Row) -> str:
    """The first sentence, without numbers that a run makes up: those of requests, and ports."""
    sentence = row.why[0] if row.why else ""
    if row.outcome is Outcome.UNCLEAR and len(row.why) > 1 and " failed, and then " in sentence:
        sentence = f"{sentence} {row.why[1]}"
    return _shortened(re.sub(r" \(id \d+\)|127\.0\.0\.1:\d+", "", sentence))


def read_results() -> Results:
    """The results that there are."""
    return msgspec.json.decode(DATA.read_bytes(), type=Results) if DATA.exists() else Results()


def write_results(results: Results) -> None:
    """Keep them, in an order that does not depend on what was played first."""
    every = [card for releases in results.cards.values() for card in releases.values()]
    used = {card.scenarios for card in (*every, *results.brokers.values())}
    results.states = {state: ids for state, ids in sorted(results.states.items()) if state in used}
    results.cards = {
        family: dict(sorted(results.cards[family].items(), key=_by_number))
        for family in FAMILIES
        if family in results.cards
    }
    DATA.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")


class Findings:
    """The pages. `fresh` are the cards that were played just now, by family and release."""

    def __init__(self, results: Results, fresh: Mapping[tuple[str, str], Card] | None = None) -> None:
        self._results = results
        self._fresh = fresh or {}

    def write(self) -> None:
        """Write all of them."""
        PAGE.write_text("\n".join(self.page()) + "\n", encoding="utf-8")
        FOLDER.mkdir(exist_ok=True)
        for family in self._results.cards:
            path = FOLDER / f"{family}.md"
            there = path.read_text(encoding="utf-8") if path.exists() else ""
            path.write_text("\n".join(self.family(family, there)) + "\n", encoding="utf-8")

    def page(self) -> list[str]:
        """The overview."""
        return [HEAD.read_text(encoding="utf-8").rstrip(), *self._totals(), *self._kips(), *self._brokers()]

    def _cards(self) -> Iterator[tuple[str, str, Played]]:
        for family, releases in self._results.cards.items():
            for release, card in releases.items():
                yield family, release, card

    def _totals(self) -> Iterator[str]:
        java = {each.id for each in load() if each.basis is Basis.JAVA}
        now = state_of_scenarios()
        yield from ("", "## Clients", "")
        yield "| library | release | pass | fail | unsupported | not exercised | unclear | as Java does |"
        yield "|---|---|---|---|---|---|---|---|"
        for family, release, card in self._cards():
            outcomes = card.outcomes(self._results.states[card.scenarios])
            counts = Counter(outcome for id_, outcome in outcomes.items() if id_ not in java)
            like_java = [outcome for id_, outcome in outcomes.items() if id_ in java]
            shown = (Outcome.PASS, Outcome.FAIL, Outcome.UNSUPPORTED, Outcome.NOT_EXERCISED, Outcome.UNCLEAR)
            older = "" if card.scenarios == now else " (older scenarios)"
            yield (
                f"| [{family}](conformance/{family}.md) | {release}{older} | "
                f"{' | '.join(str(counts[each]) for each in shown)} | "
                f"{like_java.count(Outcome.PASS)} of {len(like_java)} |"
            )
        notes = [f"- {name}: {each.note}." for name, each in FAMILIES.items() if each.note]
        yield from ("", *notes)

    def _kips(self) -> Iterator[str]:
        cards = list(self._cards())
        cells = [self._cells(card) for _, _, card in cards]
        for kip, scenarios in groupby(load(), key=lambda each: each.kip):
            yield from ("", f"## KIP-{kip}", "")
            yield f"| scenario | {' | '.join(f'{family} {release}' for family, release, _ in cards)} |"
            yield "|---|" + "---|" * len(cards)
            for scenario in scenarios:
                row = (each.get(scenario.id, "") for each in cells)
                yield f"| {scenario.id.partition('/')[2]} | {' | '.join(row)} |"

    def _cells(self, card: Played) -> dict[str, str]:
        outcomes = card.outcomes(self._results.states[card.scenarios])
        signs = {id_: SIGNS[outcome] for id_, outcome in outcomes.items()}
        return signs | {id_: "**✗ᴷ**" for id_, outcome in card.real.items() if outcome is Outcome.FAIL}

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
        cells = [self._cells(card) for card in brokers.values()]
        for id_ in self._results.states[driver.scenarios]:
            yield f"| {id_} | {' | '.join(each.get(id_, '') for each in cells)} |"
        for name, card in brokers.items():
            for outcome in card.other:
                yield from (line for id_, why in card.why(outcome).items() for line in ("", f"{name}, {id_}: {why}"))

    def family(self, family: str, there: str) -> list[str]:
        """The findings of a family: those of the newest release whole, and what an older one had beside them.

        `there` is the page as it stands, from which findings that are the same are taken over.
        """
        cards = self._results.cards[family]
        newest, card = list(cards.items())[-1]
        fails, known = card.why(Outcome.FAIL), _sections(there, newest)
        rows = {row.id: row for row in _rows(self._fresh.get((family, newest)))}
        lines = [
            f"# {card.library}",
            "",
            "Findings of `odradek conform`; made by `make conform`, see [conformance.md](../conformance.md).",
            "Each of them again, in a checkout of Odradek where `make run` has worked once:",
            "",
            "```sh",
            f".venv/bin/odradek conform --only ID -- .venv/bin/python -m tests.conform.drivers {family} {newest}",
            "```",
            "",
            f"## {newest}",
        ]
        if not fails:
            lines += ["", "Nothing failed."]
        for id_, why in fails.items():
            if f"- {why}" in known.get(id_, ()):
                lines += ["", *known[id_]]
            elif id_ in rows:
                lines += ["", *_finding(rows[id_], card.real.get(id_))]
            else:
                raise LookupError(f"{family} {newest}: {id_} has failed, and its page does not say how: play it again")
        lines += _others(card)
        for release, older in list(cards.items())[:-1]:
            lines += ["", f"## {release}", ""]
            for id_, why in older.why(Outcome.FAIL).items():
                lines.append(f"- {id_}{' (as above)' * (fails.get(id_) == why)}: {why}")
            if not older.why(Outcome.FAIL):
                lines.append("Nothing failed.")
            lines += _others(older)
        return lines


def _rows(card: Card | None) -> list[Row]:
    return [] if card is None else [row for row in card.rows if row.outcome is Outcome.FAIL]


def _sections(page: str, release: str) -> dict[str, list[str]]:
    """The findings on a page under the heading of a release, by their ids."""
    _, _, text = page.partition(f"\n## {release}\n")
    text = text.partition("\n## ")[0]
    found = {}
    for section in text.split("\n### ")[1:]:
        lines = f"### {section}".rstrip().splitlines()
        found[lines[0].removeprefix("### ")] = lines
    return found


def _finding(row: Row, real: Outcome | None) -> list[str]:
    shown = [line for line in row.exchange if not _OF_BROKERS_ALONE.search(line)]
    why = [_reason(row), *row.why[1:]]
    head, *rest = finding(replace(row, exchange=_cut(shown), verbs=_cut(row.verbs), why=_cut(why)))
    told = {
        None: "It needs a rule of Odradek, or a look at requests, and was not played in front of Apache Kafka.",
        Outcome.FAIL: "The same in front of Apache Kafka.",
    }.get(real, f"In front of Apache Kafka the outcome was: {real.value if real else ''}.")
    return [f"#{head}", *rest, "", told]


def _shortened(line: str) -> str:
    return line if len(line) <= LINE_MAX else f"{line[:LINE_MAX]}…"


def _cut(lines: list[str]) -> list[str]:
    shown = [_shortened(line) for line in lines[:EXCHANGE_MAX]]
    left_out = len(lines) - len(shown)
    return shown if not left_out else [*shown, f"… and {counted(left_out, 'line')} more"]


def _others(card: Played) -> list[str]:
    """What is neither a pass nor a finding, by its reason."""
    lines = []
    for outcome in (Outcome.UNCLEAR, Outcome.NOT_EXERCISED, Outcome.UNSUPPORTED):
        reasons = card.other.get(outcome)
        if reasons:
            lines += ["", f"### {outcome.value.capitalize()}", ""]
            lines += [f"- {why} ({', '.join(ids)})" for why, ids in reasons.items()]
    return lines


def _by_number(each: tuple[str, object]) -> tuple[int, ...]:
    return tuple(int(part) for part in each[0].split(".") if part.isdigit())
