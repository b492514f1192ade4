"""The results as a page for people: docs/compatibility.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from tests.clients.matrix.expectations import Expectations
from tests.clients.matrix.plan import BROKERS, CLIENTS, SCENARIOS, Broker, Cell
from tests.clients.matrix.results import ROOT, Entry, Results

__all__ = ["FILE", "write"]

FILE = ROOT / "docs" / "compatibility.md"

HEAD = Path(__file__).with_name("head.md")

SPOKEN: Mapping[str, str] = {
    "API_VERSIONS": "ApiVersions",
    "PRODUCE": "Produce",
    "FETCH": "Fetch",
    "INIT_PRODUCER_ID": "InitProducerId",
    "ADD_PARTITIONS_TO_TXN": "AddPartitionsToTxn",
    "END_TXN": "EndTxn",
    "TXN_OFFSET_COMMIT": "TxnOffsetCommit",
}
FIRST_OF_VERSION_2 = 5

Rows: TypeAlias = Sequence[tuple[Cell, Entry]]

INTRODUCTIONS: Mapping[str, str] = {
    "level 0": "transaction.version 0: no epoch bump at the end of a transaction, partitions are added by request.",
    "level 1": "transaction.version 1: as 0, with flexible records in the transaction log.",
    "level 2": "transaction.version 2, Kafka's default since 4.0.",
    "SASL_SSL and ACLs": (
        "The newest clients at level 2, over TLS, logged in by SCRAM-SHA-512; "
        "an authorizer lets them do what they need, with topics, groups and transactional ids that begin with "
        "the name of their family."
    ),
    "level changes": (
        "transaction.version changes between 1 and 2 0.2, 0.6, 1.4, 3 ... s after the first produced record; "
        "in the scenarios with idempotent producers every client is disconnected each time, so that it looks again."
    ),
}

AGAIN = {2: "²", 3: "³", 4: "⁴", 5: "⁵"}


def write(results: Results, expectations: Expectations, file: Path = FILE) -> None:
    """Write the page."""
    rows = list(results.rows())
    entries = {cell.key: entry for cell, entry in rows}
    lines = [HEAD.read_text(), *_spoken(rows), ""]
    for broker in BROKERS:
        lines += _section(broker, entries)
    lines += _known(rows, expectations)
    file.write_text("\n".join(lines).rstrip("\n") + "\n")


def _spoken(rows: Rows) -> Iterator[str]:
    yield _row(["client", "version", "speaks", *SPOKEN.values()])
    yield _row(["---"] * (len(SPOKEN) + 3))
    for client in CLIENTS:
        spoken: dict[str, set[int]] = {}
        for cell, entry in rows:
            if cell.client == client and cell.broker.name == "level 2" and entry.outcome.result == "passed":
                for api, versions in entry.outcome.spoken.items():
                    spoken.setdefault(api, set()).update(versions)
        if spoken:
            cells = [", ".join(map(str, sorted(spoken.get(api, ())))) or "–" for api in SPOKEN]
            yield _row([client.family, client.version, _speaks(spoken), *cells])


def _speaks(spoken: Mapping[str, set[int]]) -> str:
    ends = spoken.get("END_TXN")
    if not ends:
        return "no transactions"
    return "**version 2**" if max(ends) >= FIRST_OF_VERSION_2 else "version 0 and 1"


def _section(broker: Broker, entries: Mapping[tuple[str, str, str, str], Entry]) -> Iterator[str]:
    played = [scenario for scenario in SCENARIOS if any(key[2:] == (broker.name, scenario) for key in entries)]
    if not played:
        return
    yield f"## {broker.name[0].upper()}{broker.name[1:]}"
    yield ""
    yield INTRODUCTIONS.get(broker.name) or f"`odradek serve --as-kafka {broker.as_kafka}`, and the newest clients."
    yield ""
    yield _row(["client", "version", *played])
    yield _row(["---"] * (len(played) + 2))
    for client in CLIENTS:
        cells = [_sign(entries.get(Cell(client, broker, scenario).key)) for scenario in played]
        if any(cells):
            yield _row([client.family, client.version, *cells])
    yield ""


def _sign(entry: Entry | None) -> str:
    if entry is None:
        return ""
    outcome = entry.outcome
    match outcome.result:
        case "passed":
            return f"✓{AGAIN.get(outcome.tries, '')} {outcome.seconds:.1f}"
        case "lacking":
            return "–" if entry.expected else "**✗**"
        case "missing":
            return "?"
    return "✗ʳ" if entry.expected else "**✗**"


def _known(rows: Rows, expectations: Expectations) -> Iterator[str]:
    yield "## What fails elsewhere too, and what clients lack"
    yield ""
    yield _row(["client", "versions", "brokers", "scenarios", "why", "evidence"])
    yield _row(["---"] * 6)
    for entry, evidence in (
        *((failure, failure.evidence) for failure in expectations.failures),
        *((lacking, "the client's own interface") for lacking in expectations.lacking),
    ):
        where = map(_list, (entry.versions, entry.brokers, entry.scenarios))
        yield _row([entry.family, *where, entry.reason, evidence])
    failed = [(cell, found) for cell, found in rows if not found.expected and found.outcome.result != "missing"]
    if failed:
        yield ""
        yield "## Failures"
        yield ""
        yield _row(["cell", "what was said"])
        yield _row(["---"] * 2)
        for cell, bad in failed:
            yield _row([str(cell), _plain(bad.outcome.error)])


def _list(patterns: Iterable[str]) -> str:
    return ", ".join(pattern.replace("*", r"\*") if pattern != "*" else "all" for pattern in patterns)


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
