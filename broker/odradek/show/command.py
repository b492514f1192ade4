"""The command `odradek show`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

import msgspec
from msgspec.structs import replace

from odradek.cli.commands import Argument, Commands, Option
from odradek.cli.usage import UsageError
from odradek.show.difference import Difference, difference
from odradek.show.events import Fields
from odradek.show.exports import FORMS as EXPORTS
from odradek.show.exports import Form
from odradek.show.history import History, history_of
from odradek.show.transaction import only
from odradek.show.window import EVENTS_MAX, read_window

__all__ = ["FORMS", "Shown", "add_commands"]


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """The data of the page, from one event file or from two."""

    histories: tuple[History, ...]
    difference: Difference | None = None
    """The first difference, if there are two histories."""
    why: Fields | None = None
    """The stuck partitions and transactions when the file was written (a WhyView), if the file has them."""
    transaction: str | None = None
    """The transactional id of the option."""


def _page(shown: Shown) -> str:
    from odradek.page.document import document  # pictures need none of it

    return document(msgspec.json.encode(shown))


def _export(form: Form) -> Callable[[Shown], str | bytes]:
    return lambda shown: form.write(shown.histories, shown.transaction)


FORMS: Mapping[str, Callable[[Shown], str | bytes]] = MappingProxyType(
    {".html": _page} | {form.ending: _export(form) for form in EXPORTS.values()}
)
"""The function that writes a file, by the suffix of its name."""


def _story_names() -> Sequence[str]:
    from odradek.page.lessons import lesson_names

    return lesson_names()


def show(
    file: Annotated[
        Path | None, Argument(help="An event file: of `odradek serve --events`, a test, the simulator, the demo.")
    ] = None,
    other: Annotated[
        Path | None, Argument(metavar="FILE2", help="Another run: both are shown, and where they differ first.")
    ] = None,
    out: Annotated[
        Path | None,
        Option(
            short="-o",
            metavar="OUT",
            help="What to write: NAME.html; one transaction as NAME.svg or NAME.mmd (Mermaid); a log as NAME.shiviz "
            "or NAME.pftrace (Perfetto). Else FILE.html.",
        ),
    ] = None,
    open_it: Annotated[bool, Option(name="--open", help="Open it in a browser.")] = False,
    transaction: Annotated[
        str | None,
        Option(
            metavar="ID",
            help="Only the events about this transactional id, and those near them. "
            "In a picture else the one whose transaction ended last, or was heard of last.",
        ),
    ] = None,
    first: Annotated[
        int | None, Option(metavar="SEQ", min=1, help="From the event of this number on, instead of the newest.")
    ] = None,
    events: Annotated[int, Option(min=1, help="So many events at most.")] = EVENTS_MAX,
    story: Annotated[
        str | None,
        Option(
            metavar="NAME",
            names=_story_names,
            help="In place of a file: a story step by step, as NAME.html; `odradek stories` lists them.",
        ),
    ] = None,
) -> None:
    """Show what happened from an event file: a page for a browser, or a transaction as a picture.

    The page is one file, which needs no network. For a large event file it has a window, and says what is left out.
    """
    if story is not None:
        path = _lesson(story, file, out)
        print(path)
        if open_it:
            _open(path)
        return
    if file is None:
        raise UsageError("Name an event file, or a story: odradek show FILE, odradek show --story NAME.")
    if out is not None and out.suffix not in FORMS:
        *others, last = FORMS
        raise UsageError(f"{out}: the name of what is written ends in {', '.join(others)} or {last}")
    shown = _shown([file] if other is None else [file, other], transaction, first, events)
    content = FORMS[out.suffix if out else ".html"](shown)
    path = _written(out, content) if out else _beside(file, content)
    if shown.difference is not None:
        print(shown.difference.sentence)
    print(path)
    if open_it:
        _open(path)


def _lesson(story: str, file: Path | None, out: Path | None) -> Path:
    """Write a story as a page."""
    from odradek.page.document import document
    from odradek.page.lessons import lesson_view

    if file is not None:
        raise UsageError("An event file or a story, not both.")
    if out is not None and out.suffix != ".html":
        raise UsageError(f"{out}: a story is written as NAME.html")
    try:
        lesson = lesson_view(story)
    except LookupError as error:
        raise UsageError(str(error.args[0])) from None
    data = msgspec.json.encode({"histories": [], "difference": None, "why": None, "lesson": lesson})
    return _written(out or Path(f"{story}.html"), document(data))


def _shown(files: list[Path], transaction: str | None, first: int | None, most: int) -> Shown:
    """Read the files. Two files are compared from their beginnings: their newest events may be of different times."""
    if len(files) > 1 and first is None and transaction is None:
        first = 1
    windows = [read_window(file, first=first, most=most, transactional_id=transaction) for file in files]
    histories = tuple(
        history_of(window.events, title=file.name, left_out=window.left_out, note=window.note)
        for file, window in zip(files, windows, strict=True)
    )
    found = _difference(histories, transaction) if len(histories) > 1 else None
    return Shown(histories=histories, difference=found, why=windows[0].why, transaction=transaction)


def _difference(histories: tuple[History, ...], transaction: str | None) -> Difference:
    """The first difference; for one transaction only its own steps are compared."""
    if transaction is not None:
        histories = tuple(replace(only(history, transaction), left_out=0) for history in histories)
    left, right = histories
    return difference(left, right)


def _written(path: Path, content: str | bytes) -> Path:
    try:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    return path


def _beside(file: Path, content: str | bytes) -> Path:
    """Write FILE.html beside a file, or in a temporary folder if that fails."""
    try:
        if file.is_file():
            return _written(file.with_name(f"{file.name}.html"), content)
    except UsageError:
        pass
    return _written(Path(tempfile.mkdtemp(prefix="odradek-show-")) / f"{file.name}.html", content)


def _open(path: Path) -> None:
    import webbrowser

    if not webbrowser.open(path.absolute().as_uri()):
        raise UsageError(f"There is no browser to open {path} with.")


def add_commands(commands: Commands) -> None:
    commands.add("show", show)
