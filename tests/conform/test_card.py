"""A report card in all of its forms."""

from __future__ import annotations

from xml.etree import ElementTree

import msgspec
import pytest
from msgspec.structs import replace
from tests.conform.helpers import scenario

from odradek.conform.card import Card, badge, card_of, junit, markdown, summary, table
from odradek.conform.play import Outcome, Play
from odradek.conform.protocol import Hello
from odradek.conform.run import Result
from odradek.conform.scenario import Basis

HELLO = Hello(library="franz-go", version="1.22.2", language="go", verbs=[])
KEPT = scenario('steps = []\nsays = "Keep | it."\nsection = "One"')
JAVAS = replace(scenario('basis = "java"\nsteps = []'), id="kip-2/a/b")


def result(outcome: Outcome, *, of: object = KEPT, release: str | None = None, why: str = "It did not.") -> Result:
    played = Play(
        scenario=KEPT,
        outcome=outcome,
        sentences=[why],
        verbs=["p1 commit <- done"],
        exchange=["p1 -> 1  END_TXN\x00 <&>"],
        seconds=0.5,
    )
    times = 3 if outcome is Outcome.FAIL else 1
    sentences = [] if outcome is Outcome.PASS else [why]
    return Result(scenario=of, release=release, outcome=outcome, sentences=sentences, plays=[played] * times)  # type: ignore[arg-type]


def card(*results: Result) -> Card:
    return card_of(HELLO, results, failures={0: "there"}, against=None, seconds=12.34)


ALL = card(result(Outcome.FAIL), *(result(each) for each in Outcome), result(Outcome.PASS, of=JAVAS))


def test_promises_and_what_is_as_java_does_count_apart() -> None:
    assert "KIPs: 1 pass, 2 fail, 1 not exercised, 1 unsupported, 1 unclear\nas Java does: 1 pass" == summary(ALL)
    assert {Basis.STATED, Basis.JAVA} == {row.basis for row in ALL.rows}
    assert ["kip-1", "1", "2", "1", "1", "1"] == table(ALL).splitlines()[1].split()


def test_as_json_and_back() -> None:
    assert ALL == msgspec.json.decode(msgspec.json.encode(ALL), type=Card)


def test_as_a_page() -> None:
    page = markdown(ALL)
    assert "# franz-go 1.22.2" in page
    assert "| kip-1/a/b | Keep \\| it. |" in page
    assert "- Failed in 3 of 3 plays." in page
    assert "KIP-1 (One): Keep \\| it." in page
    assert "p1 commit <- done" in page


def test_releases_are_columns() -> None:
    page = markdown(card(result(Outcome.PASS, release="3.6"), result(Outcome.FAIL, release="4.4")))
    assert "| scenario | promise | 3.6 | 4.4 |" in page
    assert "| kip-1/a/b | Keep \\| it. | pass | **fail** |" in page


def test_as_junit() -> None:
    suite = ElementTree.fromstring(junit(ALL))
    counts = {name: suite.attrib[name] for name in ("tests", "failures", "errors", "skipped")}
    assert {"tests": "7", "failures": "2", "errors": "1", "skipped": "2"} == counts
    assert ["failure", None, "failure", "skipped", "skipped", "error", None] == [
        case[0].tag if len(case) else None for case in suite
    ]
    assert "kip-1" == suite[0].attrib["classname"]
    assert "END_TXN <&>" in (suite[0][0].text or "")


@pytest.mark.parametrize(
    ("outcomes", "message", "colour"),
    [
        ([Outcome.PASS, Outcome.PASS, Outcome.UNSUPPORTED], "2/2", "#3fb950"),
        ([Outcome.PASS, Outcome.FAIL], "1/2", "#e5534b"),
        ([Outcome.PASS, Outcome.UNCLEAR], "1/2", "#d29922"),
        ([Outcome.NOT_EXERCISED], "0/0", "#d29922"),
    ],
)
def test_badges(outcomes: list[Outcome], message: str, colour: str) -> None:
    made = card(*map(result, outcomes))
    told = msgspec.json.decode(badge(made, as_json=True))
    assert {"schemaVersion": 1, "label": "Kafka KIPs", "message": message, "color": colour} == told
    picture = badge(made, as_json=False).decode()
    assert f">{message}</text>" in picture
    assert f'fill="{colour}"' in picture
    ElementTree.fromstring(picture)
