"""`make conform`: plays every scenario with the drivers of all families, and writes docs/conformance.md.

`python -m tests.conform.cards [FAMILY[@RELEASE] | brokers | page] …` plays these alone; what is not named stays as it
is in docs/conformance.json and on the pages of the families. `brokers` are Apache Kafka, kfake and Odradek, played
`--against`; `page` writes the pages.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
from bench.brokers import running
from msgspec.structs import replace
from tests.clients.toolchain import BuildFailed, MissingToolchain
from tests.conform.conformance import Findings, read_results, write_results
from tests.conform.drivers.families import FAMILIES, command

from odradek.conform.card import Card
from odradek.conform.play import Outcome
from odradek.conform.scenario import load

__all__: list[str] = []

BROKERS = ("kafka", "kfake", "odradek")
JUDGE_OF_BROKERS = "java"
"""The family whose driver plays against brokers."""
TIMEOUT_S = 1800
MIXED = " failed, and then the outcome was "


def play(driver: list[str], *options: str) -> Card:
    """A card; raises RuntimeError, with what the command has said, where there is none."""
    with tempfile.TemporaryDirectory() as folder:
        card = Path(folder) / "card.json"
        line = [sys.executable, "-m", "odradek", "conform", "--json", str(card), "--failures", f"{folder}/failures"]
        done = subprocess.run(
            [*line, *options, "--", *driver], stdout=subprocess.PIPE, text=True, check=False, timeout=TIMEOUT_S
        )
        if not card.exists():
            raise RuntimeError(done.stdout[-2000:])
        return msgspec.json.decode(card.read_bytes(), type=Card)


def play_steadily(driver: list[str], *options: str) -> Card:
    """A card whose repetitions agree: where they did not, which a busy machine does, the scenario is played once more,
    alone."""
    card = play(driver, *options)
    mixed = [row.id for row in card.unclear if row.why and MIXED in row.why[0]]
    if not mixed:
        return card
    again = play(driver, *options, "--jobs", "1", *(word for each in mixed for word in ("--only", each)))
    rows = {row.id: row for row in again.rows}
    print(f"played again: {', '.join(f'{row.id} {row.outcome.value}' for row in again.rows)}", flush=True)
    return replace(card, rows=[rows.get(row.id, row) for row in card.rows])


def play_family(family: str, release: str) -> Card:
    """Play a release of a family, and what failed and needs no rules against a real Kafka as well."""
    driver = command(family, release)
    card = play_steadily(driver)
    anywhere = {each.id for each in load() if each.needs_no_rules}
    failed = [row.id for row in card.fails if row.id in anywhere]
    found: dict[str, Outcome] = {}
    if failed:
        with running("kafka") as kafka:
            only = [word for each in failed for word in ("--only", each)]
            found = {row.id: row.outcome for row in play_steadily(driver, "--against", kafka.bootstrap, *only).rows}
    # Read now, so that several can play at a time.
    results = read_results()
    results.cards.setdefault(family, {})[release] = results.keep(card, found)
    write_results(results)
    counts = {each.value: sum(row.outcome is each for row in card.rows) for each in Outcome}
    print(f"{family} {release}: {counts} in {card.seconds:g} s", flush=True)
    return card


def play_brokers() -> None:
    """The same scenarios with the same driver against several brokers."""
    driver, cards = command(JUDGE_OF_BROKERS), {}
    for name in BROKERS:
        with running(name) as broker:
            cards[name] = play_steadily(driver, "--against", broker.bootstrap)
        print(
            f"{name}: {sum(row.outcome is Outcome.PASS for row in cards[name].rows)} of {len(cards[name].rows)}",
            flush=True,
        )
    results = read_results()
    results.brokers = {name: results.keep(card) for name, card in cards.items()}
    write_results(results)


def main(words: list[str]) -> None:
    """Play what is named, or everything."""
    every = [f"{family}@{release}" for family, each in FAMILIES.items() for release in each.releases]
    wanted = words or [*every, "brokers"]
    fresh: dict[tuple[str, str], Card] = {}
    for word in wanted:
        if word == "page":
            continue
        try:
            if word == "brokers":
                play_brokers()
            else:
                family, _, release = word.partition("@")
                for each in [release] if release else FAMILIES[family].releases:
                    fresh[family, each] = play_family(family, each)
        except (BuildFailed, MissingToolchain, RuntimeError, subprocess.TimeoutExpired) as error:
            print(f"{word} was not played: {error}", file=sys.stderr)
    Findings(read_results(), fresh).write()


if __name__ == "__main__":
    main(sys.argv[1:])
