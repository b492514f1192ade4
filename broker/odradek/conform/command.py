"""The command `odradek conform`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from odradek.cli.commands import Argument, Commands, Option
from odradek.cli.usage import UsageError

if TYPE_CHECKING:
    from odradek.conform.card import Card
    from odradek.conform.run import Result, Wanted
    from odradek.conform.scenario import Scenario

__all__ = ["add_commands"]

FAILURES = Path("conform-failures")


def _ids() -> Sequence[str]:
    from odradek.conform.scenario import load

    return [each.id for each in load()]


def _languages() -> Sequence[str]:
    from odradek.conform.skeletons import LANGUAGES

    return list(LANGUAGES)


def _skeleton(language: str) -> str:
    from odradek.conform.skeletons import LANGUAGES, skeleton

    if language not in LANGUAGES:
        raise UsageError(f"There is no skeleton for {language}; there are {', '.join(sorted(LANGUAGES))}.")
    return skeleton(language)


def conform(
    driver: Annotated[
        list[str] | None,
        Argument(metavar="DRIVER", help="Behind `--`: the driver and its arguments (docs/conform-driver.md)."),
    ] = None,
    list_them: Annotated[bool, Option(name="--list", help="List the scenarios, and play none.")] = False,
    only: Annotated[
        list[str] | None,
        Option(
            metavar="GLOB", names=_ids, help="Only scenarios whose ids match, as kip-890/*; can be given more often."
        ),
    ] = None,
    level: Annotated[int, Option(min=1, max=3, help="1: plain transactions, 2: faults as well, 3: everything.")] = 3,
    as_kafka: Annotated[
        str | None, Option(metavar="RELEASES", help="Releases of Kafka to be, as 3.6,4.4; else the newest.")
    ] = None,
    against: Annotated[
        str | None,
        Option(metavar="HOST:PORT", help="A broker that is there: what needs no rules is played against it."),
    ] = None,
    replay: Annotated[
        Path | None, Option(metavar="FAILURE", help="Play one failure again, once, and print the exchange.")
    ] = None,
    failures: Annotated[Path, Option(metavar="FOLDER", help="Where the files of failures go.")] = FAILURES,
    json: Annotated[Path | None, Option(metavar="FILE", help="Write the card as JSON.")] = None,
    junit: Annotated[Path | None, Option(metavar="FILE", help="Write the card as JUnit XML.")] = None,
    markdown: Annotated[Path | None, Option(metavar="FILE", help="Write the card as a page.")] = None,
    badge: Annotated[
        Path | None, Option(metavar="FILE", help="Write a badge: NAME.svg, or NAME.json for a shields endpoint.")
    ] = None,
    jobs: Annotated[int, Option(min=1, max=64, help="So many scenarios at once, each with a driver process.")] = 8,
    repeat: Annotated[int, Option(min=1, max=100, help="So often a failure has to come about.")] = 3,
    try_it: Annotated[
        bool, Option(name="--try", help="Ask the driver for one transaction, and print each line of both sides.")
    ] = False,
    skeleton: Annotated[
        str | None,
        Option(
            metavar="LANGUAGE", names=_languages, help="Print a driver without its verbs: python, go, java, node, rust."
        ),
    ] = None,
    schema: Annotated[bool, Option(help="Print the JSON schema of the lines of the driver's protocol.")] = False,
) -> None:
    """Judge a client library: which sentences of the KIPs does it keep?

    A driver on standard streams operates the library: odradek conform -- ./driver
    Exit code 1 if a scenario failed or is unclear.
    """
    if skeleton is not None:
        print(_skeleton(skeleton), end="")
        return
    if schema:
        from odradek.conform.schema import committed

        print(committed(), end="")
        return
    if list_them:
        _list(only or [], level, anywhere=against is not None)
        return
    if replay is not None:
        raise SystemExit(_replay(replay, driver))
    if not driver:
        raise UsageError("Name a driver: odradek conform -- ./driver")
    if try_it:
        raise SystemExit(0 if _try(driver) else 1)
    from odradek.conform.run import Wanted, chosen
    from odradek.conform.scenario import load

    if against is not None and as_kafka is not None:
        raise UsageError("--against names a broker, which is the release that it is: leave --as-kafka out.")
    _check_badge(badge)
    wanted = Wanted(
        scenarios=chosen(load(), only=only or [], level=level, anywhere=against is not None),
        command=driver,
        releases=_releases(as_kafka),
        against=_address(against),
        jobs=jobs,
        repeated=repeat,
    )
    card = _run(wanted, failures)
    _write(card, json, junit, markdown, badge)
    raise SystemExit(1 if card.fails or card.unclear else 0)


def _list(only: list[str], level: int, *, anywhere: bool) -> None:
    from odradek.conform.run import chosen
    from odradek.conform.scenario import load

    scenarios = chosen(load(), only=only, level=level, anywhere=anywhere)
    width = max(len(each.id) for each in scenarios)
    for each in scenarios:
        print(f"{each.id:{width}}  {each.basis.value:6}  {each.about}")


def _releases(text: str | None) -> list[str | None]:
    if text is None:
        return [None]
    from odradek.cli.usage import UsageError
    from odradek.config.table import Config

    names: list[str | None] = [each.strip() for each in text.split(",")]
    for name in names:
        try:
            Config.parse({"odradek.as.kafka": name or ""}, None)
        except ValueError as error:
            raise UsageError(f"--as-kafka {name}: {error}") from None
    return names


def _address(text: str | None) -> str | None:
    if text is None:
        return None
    from odradek.net.client import split_address

    try:
        split_address(text)
    except ValueError:
        raise UsageError(f"--against takes HOST:PORT, not {text}.") from None
    return text


def _check_badge(badge: Path | None) -> None:
    if badge is not None and badge.suffix not in (".svg", ".json"):
        raise UsageError(f"{badge}: the name of a badge ends in .svg or .json.")


def _run(wanted: Wanted, failures: Path) -> Card:
    import anyio

    from odradek.conform.card import card_of, summary, table
    from odradek.conform.failure import write_failure
    from odradek.conform.play import Outcome
    from odradek.conform.run import run

    began = time.monotonic()
    hello, results = anyio.run(run, wanted, _tell)
    folders = {
        index: str(write_failure(failures, each, hello, list(wanted.command), wanted.against))
        for index, each in enumerate(results)
        if each.outcome in (Outcome.FAIL, Outcome.UNCLEAR)
    }
    seconds = time.monotonic() - began
    card = card_of(hello, results, failures=folders, against=wanted.against, seconds=seconds)
    print(f"\n{card.library} {card.version}, {len(results)} scenarios in {seconds:.0f} s")
    print(table(card))
    print(summary(card))
    if folders:
        print(f"Failures: {failures} (odradek conform --replay {next(iter(folders.values()))})")
    return card


def _tell(result: Result) -> None:
    release = f" ({result.release})" if result.release else ""
    print(f"{result.outcome.value:13} {result.scenario.id}{release}", flush=True)
    for sentence in result.sentences:
        print(f"{'':13} {sentence}", flush=True)


def _write(card: Card, json: Path | None, junit: Path | None, markdown: Path | None, badge: Path | None) -> None:
    import msgspec

    from odradek.conform import card as cards

    content: list[tuple[Path | None, bytes]] = [
        (json, msgspec.json.format(msgspec.json.encode(card), indent=2) + b"\n"),
        (junit, cards.junit(card)),
        (markdown, cards.markdown(card).encode()),
        (badge, cards.badge(card, as_json=badge is not None and badge.suffix == ".json")),
    ]
    for path, data in content:
        if path is None:
            continue
        try:
            path.write_bytes(data)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}.") from None


def _replay(path: Path, driver: list[str] | None) -> int:
    import anyio

    from odradek.conform.failure import read_failure
    from odradek.conform.play import Outcome
    from odradek.conform.run import Wanted, run

    failure = read_failure(path)
    wanted = Wanted(
        scenarios=[_named(failure.scenario)],
        command=driver or failure.command,
        releases=[failure.release],
        against=failure.against,
        jobs=1,
        repeated=1,
    )
    _, [result] = anyio.run(run, wanted, _tell)
    [played] = result.plays
    print("\n".join(["", *played.verbs, "", *played.exchange]))
    return 0 if result.outcome is Outcome.PASS else 1


def _named(scenario_id: str) -> Scenario:
    from odradek.conform.scenario import load

    for each in load():
        if each.id == scenario_id:
            return each
    raise UsageError(f"There is no scenario {scenario_id}: odradek conform --list names them all.")


def _try(command: list[str]) -> bool:
    import anyio

    from odradek.conform.trial import try_driver

    return anyio.run(try_driver, command, partial(print, flush=True))


def add_commands(commands: Commands) -> None:
    commands.add("conform", conform)
