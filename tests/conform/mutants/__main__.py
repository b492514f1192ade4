"""Look for each mutant with the scenarios that have to kill it, and say which sentence killed it.

    python -m tests.conform.mutants [--driver FAMILY] [--jobs N] [--all] [--keep] [NAME ...]

A name may be a part of one. With --all each mutant meets every scenario, not only those of its `killed_by`.
With --keep the results go into docs/conform-mutants.json, and the page docs/conform-mutants.md is made of it anew.
"""

from __future__ import annotations

import argparse
import sys
from fnmatch import fnmatch
from pathlib import Path
from time import monotonic

import anyio
import msgspec
from msgspec import Struct
from tests.conform.drivers.families import command
from tests.conform.mutants.mutant import Mutant, mutants

from odradek.conform.play import Outcome
from odradek.conform.run import Wanted, chosen, run
from odradek.conform.scenario import load

__all__ = ["FIGURES", "PAGE", "Search", "kept", "look_for", "main", "page"]

ROOT = Path(__file__).parents[3]
FIGURES = ROOT / "docs" / "conform-mutants.json"
PAGE = FIGURES.with_suffix(".md")
HEAD = Path(__file__).with_name("head.md")


class Search(Struct, frozen=True, kw_only=True):
    """What came of looking for a mutant."""

    name: str
    about: str
    killed: dict[str, str]
    """The scenarios that failed, and why."""
    expected: bool
    """Whether one of `killed_by` is among them."""
    survived: dict[str, str]
    """The outcomes of the scenarios that did not fail."""
    seconds: float


def look_for(mutant: Mutant, driver: list[str], *, jobs: int, everything: bool = False) -> Search:
    """Play the scenarios with the mutant."""
    began = monotonic()
    spoiled = [sys.executable, "-m", "tests.conform.mutants.driver", mutant.name, "--", *driver]
    wanted = Wanted(
        scenarios=chosen(load(), only=[] if everything else mutant.killed_by, level=3, anywhere=False),
        command=["env", f"PYTHONPATH={ROOT / 'broker'}:{ROOT}", *spoiled],
        jobs=jobs,
        repeated=1,
    )
    _, results = anyio.run(run, wanted, lambda result: None)
    killed = {each.scenario.id: " ".join(each.sentences)[:300] for each in results if each.outcome is Outcome.FAIL}
    return Search(
        name=mutant.name,
        about=mutant.about,
        killed=killed,
        expected=any(fnmatch(each, pattern) for each in killed for pattern in mutant.killed_by),
        survived={each.scenario.id: each.outcome.value for each in results if each.outcome is not Outcome.FAIL},
        seconds=round(monotonic() - began, 1),
    )


def kept() -> list[Search]:
    """The results in docs/conform-mutants.json of the mutants that there are, in the order of the table."""
    found = {each.name: each for each in msgspec.json.decode(FIGURES.read_bytes(), type=list[Search])}
    return [found[each.name] for each in mutants() if each.name in found]


def keep(searches: list[Search]) -> None:
    """Write the results down, and the page of all of them."""
    new = {each.name: each for each in searches}
    old = kept() if FIGURES.exists() else []
    everything = {**{each.name: each for each in old}, **new}
    in_order = [everything[each.name] for each in mutants() if each.name in everything]
    FIGURES.write_bytes(msgspec.json.format(msgspec.json.encode(in_order), indent=1) + b"\n")
    PAGE.write_text(page(in_order))


def page(searches: list[Search]) -> str:
    """docs/conform-mutants.md."""
    dead = sum(each.expected for each in searches)
    lines = [
        HEAD.read_text().format(dead=dead, all=len(searches)),
        "| mutant | what it does wrong | failed |",
        "|---|---|---|",
    ]
    for each in searches:
        by = ", ".join(f"`{name}`" for name in each.killed) or "**none**"
        lines.append(f"| `{each.name}` | {each.about} | {by} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Exit code 1 if one of them was not killed by a sentence that it breaks."""
    parser = argparse.ArgumentParser(prog="python -m tests.conform.mutants")
    parser.add_argument("--driver", default="java")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args(arguments)
    looked_for = [each for each in mutants() if not given.names or any(name in each.name for name in given.names)]
    searches = []
    for mutant in looked_for:
        found = look_for(mutant, command(given.driver), jobs=given.jobs, everything=given.all)
        searches.append(found)
        by = ", ".join(found.killed) or "nothing: " + ", ".join(f"{id_} {how}" for id_, how in found.survived.items())
        print(f"{'killed' if found.expected else 'ALIVE'}  {mutant.name}  {found.seconds:.0f} s  by {by}", flush=True)
    if given.keep:
        keep(searches)
    dead = sum(each.expected for each in searches)
    print(f"{dead} of {len(searches)} mutants killed")
    return 0 if dead == len(searches) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
