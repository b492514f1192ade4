"""The files of a failure: its data for `--replay`, its events, its picture, and the exchange as text."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from odradek import __version__
from odradek.cli.usage import UsageError
from odradek.conform.protocol import Hello
from odradek.conform.run import Result

__all__ = ["FAILURE", "Failure", "read_failure", "write_failure"]

FAILURE, EVENTS, PAGE, EXCHANGE = "failure.json", "events.jsonl", "page.html", "exchange.txt"


class Failure(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The file that `--replay` reads."""

    scenario: str
    command: list[str]
    library: str
    version: str
    odradek: str
    why: list[str]
    release: str | None = None
    against: str | None = None
    verbs: list[str] = []
    errors: str = ""
    """The end of the driver's standard error."""


def write_failure(folder: Path, result: Result, hello: Hello, command: list[str], against: str | None = None) -> Path:
    """Write the files of a failure into a folder of its own; returns the folder. Raises UsageError."""
    name = result.scenario.id.replace("/", "_") + (f"@{result.release}" if result.release else "")
    own = folder / name
    played = result.shown
    failure = Failure(
        scenario=result.scenario.id,
        command=command,
        library=hello.library,
        version=hello.version,
        odradek=__version__,
        why=result.sentences,
        release=result.release,
        against=against,
        verbs=played.verbs,
        errors=result.errors,
    )
    told = [
        f"{result.scenario.id}: {result.scenario.about}",
        *result.sentences,
        "",
        *played.verbs,
        "",
        *played.exchange,
    ]
    try:
        own.mkdir(parents=True, exist_ok=True)
        (own / FAILURE).write_bytes(msgspec.json.format(msgspec.json.encode(failure), indent=2) + b"\n")
        (own / EXCHANGE).write_text("\n".join(told) + "\n", encoding="utf-8")
        if played.events:
            (own / EVENTS).write_bytes(b"".join(line + b"\n" for line in played.events))
            (own / PAGE).write_bytes(_page(own / EVENTS, name))
    except OSError as error:
        raise UsageError(f"{own}: {error.strerror}.") from None
    return own


def _page(events: Path, title: str) -> bytes:
    from odradek.show.command import FORMS, Shown
    from odradek.show.history import history_of
    from odradek.show.window import EVENTS_MAX, read_window

    window = read_window(events, first=None, most=EVENTS_MAX, transactional_id=None)
    history = history_of(window.events, title=title, left_out=window.left_out, note=window.note)
    page = FORMS[".html"](Shown(histories=(history,)))
    return page.encode() if isinstance(page, str) else page


def _by_id(path: Path, parent: Path) -> Path:
    """The folder in `parent` of a failure whose id the rest of the path is."""
    return parent / "_".join(path.relative_to(parent).parts)


def read_failure(path: Path) -> Failure:
    """The failure in a file or its folder, which may be named by the id of its scenario. Raises UsageError."""
    if not path.exists():
        path = next((folder for folder in map(partial(_by_id, path), path.parents) if folder.is_dir()), path)
    file = path / FAILURE if path.is_dir() else path
    try:
        return msgspec.json.decode(file.read_bytes(), type=Failure)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}.") from None
    except msgspec.MsgspecError as error:
        raise UsageError(f"{file} is no failure of odradek conform: {error}.") from None
