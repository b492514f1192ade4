"""Asks real brokers of older releases, and Odradek in their place.

    python -m tests.oracle.releases record [WHAT...]    play against real brokers and write their answers
    python -m tests.oracle.releases ranges [WHAT...]    ask each release for its versions and features, and write them
    python -m tests.oracle.releases check [WHAT...]     play against `odradek serve --as-kafka` and print what differs
    python -m tests.oracle.releases accept [WHAT...]    write Odradek's answers where they are meant to differ
    python -m tests.oracle.releases list                name the scenarios

For a new release (docs/contributing.md):

    python -m tests.oracle.releases new                 all that follows, and `ranges` and `record`, in order
    python -m tests.oracle.releases jars [RELEASE...]   read the jars: schemas, configuration keys, error codes
    python -m tests.oracle.releases schemas             carry over what changed in the schemas of the last two
    python -m tests.oracle.releases overlay             write the versions, features and keys of all releases
    python -m tests.oracle.releases news                print what is new in the last one and written nowhere

WHAT is a file of scenarios, or file/scenario, or for `ranges` a release; everything if left out.
`--column 3.6` limits it to one release.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Iterable

from tests.oracle.language import LanguageError
from tests.oracle.releases.chosen import chosen_scenarios, played_as
from tests.oracle.releases.columns import COLUMNS, Column
from tests.oracle.releases.differences import reason
from tests.oracle.releases.material import read_jars, recorded_material, write_material
from tests.oracle.releases.news import (
    answers_that_differ,
    last_two,
    left_over,
    prepare,
    write_overlays,
    write_schemas,
)
from tests.oracle.releases.ranges import record_ranges
from tests.oracle.releases.real import VERSIONS
from tests.oracle.releases.recorded import KAFKA, ODRADEK, answers_path, recorded, write
from tests.oracle.releases.starts import odradek, real
from tests.oracle.scenario import Scenario
from tests.oracle.session import Stage, Start, groups
from tests.oracle.transcript import Entry, difference

from odradek.wire.errors import EncodeError

COMMANDS = ("record", "ranges", "check", "accept", "list", "new", "jars", "schemas", "overlay", "news")
log = logging.getLogger(__name__)
Played = dict[str, dict[Column, list[Entry]]]


def play(scenarios: Iterable[Scenario], columns: Iterable[Column], *, on_real: bool) -> Played:
    """Every scenario in every column, by path and column."""
    played: Played = {}
    scenarios = list(scenarios)
    for column in columns:
        start: Start = real(column) if on_real else odradek(column)
        for group in groups(played_as(scenarios, column.release)):
            with Stage(group, column.level, start) as stage:
                for scenario in stage.scenarios:
                    try:
                        played.setdefault(scenario.path, {})[column] = stage.play(scenario)
                    except (EncodeError, LanguageError):
                        log.info("%s cannot be asked in the versions of %s", scenario.path, column.release)
                    except Exception as error:
                        log.exception("%s %s", column.name, "\n".join(getattr(error, "__notes__", [])))
    return played


def record(scenarios: list[Scenario], columns: list[Column]) -> int:
    """Write the answers of the real brokers; columns that were not asked keep what they had."""
    for path, answers in play(scenarios, columns, on_real=True).items():
        scenario = next(each for each in scenarios if each.path == path)
        write(scenario, KAFKA, {**recorded(scenario), **answers})
    return 0


def accept(scenarios: list[Scenario], columns: list[Column]) -> int:
    """Write Odradek's answers where they are meant to differ; columns that were not asked keep what they had."""
    differing = [scenario for scenario in scenarios if reason(scenario)]
    played = play(differing, columns, on_real=False)
    for scenario in differing:
        kafka, before = recorded(scenario), recorded(scenario) | recorded(scenario, ODRADEK)
        ours = {column: played.get(scenario.path, {}).get(column, before[column]) for column in kafka}
        if any(difference(kafka[column], ours[column]) for column in kafka):
            write(scenario, ODRADEK, ours)
        else:
            answers_path(scenario, ODRADEK).unlink(missing_ok=True)
    return 0


def check(scenarios: list[Scenario], columns: list[Column]) -> int:
    """Play against Odradek and print what differs, columns with the same differences together."""
    failures = 0
    played = play(scenarios, columns, on_real=False)
    for scenario in scenarios:
        expected = recorded(scenario, ODRADEK) or recorded(scenario)
        found: dict[tuple[str, ...], list[str]] = {}
        for column, entries in played.get(scenario.path, {}).items():
            if column in expected and (lines := difference(expected[column], entries)):
                found.setdefault(tuple(lines), []).append(column.name)
        failures += bool(found)
        for lines_, names in found.items():
            print(f"\n{scenario.path} as {' '.join(names)}", *lines_, sep="\n")
    print(f"\n{len(scenarios)} scenarios, {failures} with differences")
    return int(failures > 0)


def news(scenarios: list[Scenario]) -> None:
    """Print what people have to read: keys and codes that stand in no table of Odradek, and other answers."""
    older, newer = last_two()
    print(f"New in {newer}, with no table that is written:")
    print(*left_over(recorded_material(older), recorded_material(newer)), sep="\n")
    print(f"\nScenarios that {newer} answers otherwise than {older}; where this release acts, it has a switch:")
    print(*answers_that_differ(scenarios, older), sep="\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.releases", description="Older releases.")
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("what", nargs="*", help="file, or file/scenario")
    parser.add_argument("--column", action="append", choices=[column.name for column in COLUMNS])
    arguments = parser.parse_args()
    what = set(arguments.what)
    scenarios = [each for each in chosen_scenarios() if not what or {each.topic, each.path} & what]
    columns = [column for column in COLUMNS if not arguments.column or column.name in arguments.column]
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    started = time.monotonic()
    status = 0
    match arguments.command:
        case "list":
            print(*(scenario.path for scenario in scenarios), sep="\n")
        case "record":
            status = record(scenarios, columns)
        case "accept":
            status = accept(scenarios, columns)
        case "ranges":
            record_ranges([release for release in VERSIONS if not what or release in what])
        case "jars":
            for release in what or last_two():
                write_material(release, read_jars(release, VERSIONS[release]))
        case "schemas":
            print(*write_schemas(*last_two()), sep="\n")
        case "overlay":
            write_overlays()
        case "news":
            news(scenarios)
        case "new":
            status = prepare()
        case _:
            status = check(scenarios, columns)
    print(f"{time.monotonic() - started:.0f} s")
    return status


if __name__ == "__main__":
    sys.exit(main())
