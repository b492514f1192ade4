"""A report card: the outcome of every scenario, as data, text, Markdown, JUnit XML and a badge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from xml.etree import ElementTree

import msgspec
from msgspec import Struct

from odradek import __version__
from odradek.conform.play import Outcome
from odradek.conform.protocol import Hello
from odradek.conform.run import Result
from odradek.conform.scenario import Basis
from odradek.core.wording import counted

__all__ = ["Card", "Row", "badge", "card_of", "junit", "markdown", "summary", "table"]

GREEN, YELLOW, RED = "#3fb950", "#d29922", "#e5534b"
MARKS = {
    Outcome.PASS: "pass",
    Outcome.FAIL: "**fail**",
    Outcome.NOT_EXERCISED: "not exercised",
    Outcome.UNSUPPORTED: "unsupported",
    Outcome.UNCLEAR: "unclear",
}


class Row(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One scenario at one release."""

    id: str
    about: str
    basis: Basis
    says: str | None
    section: str | None
    outcome: Outcome
    release: str | None = None
    why: list[str] = []
    plays: list[Outcome] = []
    """The outcome of each play: a failure has to come about several times."""
    seconds: float = 0.0
    failure: str | None = None
    """The folder with the files of a failure."""
    exchange: list[str] = []
    """Only for a failure."""
    verbs: list[str] = []
    """Only for a failure."""


class Card(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A client library's card; of a broker where it was played `against` one."""

    library: str
    version: str
    language: str
    odradek: str
    rows: list[Row]
    against: str | None = None
    seconds: float = 0.0

    def counts(self, *, java: bool) -> Counter[Outcome]:
        """The number of rows with each outcome: of the KIPs' promises, or of habits of the Java client."""
        return Counter(row.outcome for row in self.rows if (row.basis is Basis.JAVA) is java)

    @property
    def fails(self) -> list[Row]:
        return [row for row in self.rows if row.outcome is Outcome.FAIL]

    @property
    def unclear(self) -> list[Row]:
        return [row for row in self.rows if row.outcome is Outcome.UNCLEAR]


def card_of(
    hello: Hello, results: Sequence[Result], *, failures: dict[int, str], against: str | None, seconds: float
) -> Card:
    """The card; `failures` are the folders of failures, by the place of the result."""
    return Card(
        library=hello.library,
        version=hello.version,
        language=hello.language,
        odradek=__version__,
        rows=[row_of(each, failures.get(index)) for index, each in enumerate(results)],
        against=against,
        seconds=round(seconds, 1),
    )


def row_of(result: Result, failure: str | None = None) -> Row:
    """A result as it stands in a card."""
    scenario, last = result.scenario, result.plays[-1]
    shows = result.outcome is Outcome.FAIL
    return Row(
        id=scenario.id,
        about=scenario.about,
        basis=scenario.basis,
        says=scenario.says,
        section=scenario.section,
        outcome=result.outcome,
        release=result.release,
        why=result.sentences,
        plays=[each.outcome for each in result.plays],
        seconds=round(result.seconds, 2),
        failure=failure,
        exchange=last.exchange if shows else [],
        verbs=last.verbs if shows else [],
    )


def summary(card: Card) -> str:
    """The card in two lines."""
    lines = []
    for java, name in ((False, "KIPs"), (True, "as Java does")):
        counts = card.counts(java=java)
        if counts:
            told = ", ".join(f"{counts[each]} {each.value}" for each in Outcome if counts[each])
            lines.append(f"{name}: {told}")
    return "\n".join(lines)


def table(card: Card) -> str:
    """Rows of text: one for every KIP."""
    kips = dict.fromkeys(row.id.split("/", 1)[0] for row in card.rows)
    lines = [f"{'':10}" + "".join(f"{each.value:>15}" for each in Outcome)]
    for kip in kips:
        counts = Counter(row.outcome for row in card.rows if row.id.split("/", 1)[0] == kip)
        lines.append(f"{kip:10}" + "".join(f"{counts[each] or '-':>15}" for each in Outcome))
    return "\n".join(lines)


def markdown(card: Card) -> str:
    """The card as a page."""
    releases = list(dict.fromkeys(row.release for row in card.rows))
    where = f", against {card.against}" if card.against else ""
    lines = [
        f"# {card.library} {card.version}{where}",
        "",
        f"`odradek conform` {card.odradek}, {counted(len(card.rows), 'scenario')} in {card.seconds:g} s.",
        "",
        *(f"- {line}" for line in summary(card).splitlines()),
        "",
        "| scenario | promise | " + " | ".join("outcome" if each is None else each for each in releases) + " |",
        "|---|---|" + "---|" * len(releases),
    ]
    by_id: dict[str, dict[str | None, Row]] = {}
    for row in card.rows:
        by_id.setdefault(row.id, {})[row.release] = row
    for id_, rows in by_id.items():
        first = next(iter(rows.values()))
        cells = (MARKS[rows[each].outcome] if each in rows else "" for each in releases)
        lines.append(f"| {id_} | {promise(first)} | {' | '.join(cells)} |")
    for row in card.fails:
        lines += ["", *finding(row)]
    for row in card.rows:
        if row.outcome in (Outcome.NOT_EXERCISED, Outcome.UNSUPPORTED, Outcome.UNCLEAR):
            lines += ["", f"{row.id}: {row.outcome.value}. {row.why[0] if row.why else ''}".rstrip()]
    return "\n".join(lines) + "\n"


def promise(row: Row) -> str:
    """The sentence, and where it stands."""
    said = (row.says or row.about).replace("|", "\\|")
    match row.basis:
        case Basis.QUOTED:
            return f"“{said}”"
        case Basis.JAVA:
            return f"{said} (as Java does)"
        case Basis.STATED:
            return said


def finding(row: Row) -> list[str]:
    """A failure as a section that can be sent to the library's authors."""
    where = f" ({row.section})" if row.section else ""
    release = f" with Kafka {row.release}" if row.release else ""
    return [
        f"## {row.id}{release}",
        "",
        f"{row.about}",
        "",
        f"{row.id.split('/', 1)[0].upper()}{where}: {promise(row)}",
        "",
        *(f"- {each}" for each in row.why),
        f"- Failed in {sum(each is Outcome.FAIL for each in row.plays)} of {counted(len(row.plays), 'play')}.",
        "",
        "The application's calls:",
        "",
        "```text",
        *row.verbs,
        "```",
        "",
        "The requests and answers:",
        "",
        "```text",
        *row.exchange,
        "```",
    ]


def junit(card: Card) -> bytes:
    """The card as JUnit XML: `skipped` for unsupported or unexercised scenarios, `error` for unclear ones."""
    counts = Counter(row.outcome for row in card.rows)
    suite = ElementTree.Element(
        "testsuite",
        name=f"odradek conform: {card.library} {card.version}",
        tests=str(len(card.rows)),
        failures=str(counts[Outcome.FAIL]),
        errors=str(counts[Outcome.UNCLEAR]),
        skipped=str(counts[Outcome.UNSUPPORTED] + counts[Outcome.NOT_EXERCISED]),
        time=f"{card.seconds:g}",
    )
    kinds = {
        Outcome.FAIL: "failure",
        Outcome.UNCLEAR: "error",
        Outcome.UNSUPPORTED: "skipped",
        Outcome.NOT_EXERCISED: "skipped",
    }
    for row in card.rows:
        kip, _, name = row.id.partition("/")
        release = f" ({row.release})" if row.release else ""
        case = ElementTree.SubElement(suite, "testcase", classname=kip, name=name + release, time=f"{row.seconds:g}")
        if row.outcome in kinds:
            told = f"{row.outcome.value}: {row.why[0] if row.why else ''}"
            ended = ElementTree.SubElement(case, kinds[row.outcome], message=_printable(told))
            text = "\n".join([promise(row), "", *row.why, "", *row.verbs, "", *row.exchange])
            ended.text = _printable(text)
    ElementTree.indent(suite)
    return bytes(ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)) + b"\n"


def _printable(text: str) -> str:
    """Without the characters that XML 1.0 has no place for."""
    return "".join(each for each in text if each in "\n\t" or ord(each) >= 0x20)


def badge(card: Card, *, as_json: bool) -> bytes:
    """How many of the KIPs' promises are kept, of those that were put to the test: SVG, or JSON for shields."""
    counts = card.counts(java=False)
    passed, failed, unclear = counts[Outcome.PASS], counts[Outcome.FAIL], counts[Outcome.UNCLEAR]
    colour = RED if failed else YELLOW if unclear or not passed else GREEN
    message = f"{passed}/{passed + failed + unclear}"
    if as_json:
        told = {"schemaVersion": 1, "label": "Kafka KIPs", "message": message, "color": colour}
        return msgspec.json.format(msgspec.json.encode(told), indent=2) + b"\n"
    left, right = 76, 14 + 7 * len(message)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" '
        f'aria-label="Kafka KIPs: {message}"><title>Kafka KIPs: {message}</title>'
        f'<rect width="{left}" height="20" fill="#555"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{colour}"/>'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f'<text x="{left / 2:g}" y="14">Kafka KIPs</text>'
        f'<text x="{left + right / 2:g}" y="14">{message}</text></g></svg>\n'
    ).encode()
