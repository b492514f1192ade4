"""docs/conformance.json and its pages: made of one another, and the same after cards that say the same."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace
from tests.conform import conformance
from tests.conform.conformance import Findings, Results, read_results
from tests.conform.drivers.families import FAMILIES

from odradek.conform.card import Card, Row
from odradek.conform.play import Outcome
from odradek.conform.scenario import Basis

KEPT = read_results()


def row(outcome: Outcome, *why: str, id_: str = "kip-98/init/timeout", exchange: str = "") -> Row:
    return Row(
        id=id_,
        about="It does.",
        basis=Basis.STATED,
        says="It does.",
        section=None,
        outcome=outcome,
        why=list(why),
        plays=[outcome] * 3,
        verbs=["p1 init <- done"],
        exchange=[exchange],
    )


def made(*rows: Row) -> Card:
    return Card(library="franz-go", version="1", language="go", odradek="1", rows=list(rows), seconds=1.5)


def results(card: Card) -> Results:
    kept = Results()
    kept.cards["franz-go"] = {"1.22.2": kept.keep(card)}
    return kept


BROKEN = row(Outcome.FAIL, "It did not.", exchange="3.7ms  p1 -> 1  END_TXN v5")


def test_the_pages_are_made_of_the_results() -> None:
    findings = Findings(KEPT)
    assert "\n".join(findings.page()) + "\n" == conformance.PAGE.read_text(encoding="utf-8")
    for family in KEPT.cards:
        page = (conformance.FOLDER / f"{family}.md").read_text(encoding="utf-8")
        assert "\n".join(findings.family(family, page)) + "\n" == page


def test_the_newest_release_of_every_family_has_a_card() -> None:
    newest = {name: list(cards)[-1] for name, cards in KEPT.cards.items()}
    assert {name: each.releases[-1] for name, each in FAMILIES.items()} == newest


def test_what_is_kept_is_small_and_does_not_tell_one_run_from_another() -> None:
    text = conformance.DATA.read_text(encoding="utf-8")
    assert len(text) < 200_000
    assert not re.search(r"127\.0\.0\.1:\d|\(id \d+\)|seconds", text)


def test_a_card_that_says_the_same_changes_nothing() -> None:
    first = results(made(BROKEN))
    page = Findings(first, {("franz-go", "1.22.2"): made(BROKEN)}).family("franz-go", "")
    assert any("3.7ms" in line for line in page)
    again = replace(made(replace(BROKEN, exchange=["9.1ms  p1 -> 1  END_TXN v5"])), seconds=99.0)
    assert first == results(again)
    fresh = {("franz-go", "1.22.2"): again}
    assert page == Findings(results(again), fresh).family("franz-go", "\n".join(page))


def test_a_card_that_says_something_else_has_its_own_calls_and_requests() -> None:
    page = Findings(results(made(BROKEN)), {("franz-go", "1.22.2"): made(BROKEN)}).family("franz-go", "")
    other = row(Outcome.FAIL, "It did something else.", exchange="9.1ms  p1 -> 1  PRODUCE v12")
    told = Findings(results(made(other)), {("franz-go", "1.22.2"): made(other)}).family("franz-go", "\n".join(page))
    assert any("9.1ms" in line for line in told)
    assert not any("3.7ms" in line or "It did not." in line for line in told)


def test_a_finding_that_no_page_and_no_card_has_is_not_made_up() -> None:
    with pytest.raises(LookupError, match="play it again"):
        Findings(results(made(BROKEN))).family("franz-go", "")


def test_what_a_run_makes_up_is_left_out_of_a_reason() -> None:
    card = made(row(Outcome.UNCLEAR, "The driver ended with signal SIGILL before the answer to flush of p1 (id 54)."))
    [(why, ids)] = results(card).cards["franz-go"]["1.22.2"].other[Outcome.UNCLEAR].items()
    assert "The driver ended with signal SIGILL before the answer to flush of p1." == why
    assert ["kip-98/init/timeout"] == ids
