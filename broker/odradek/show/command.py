"""The command `odradek show`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

from odradek.commands import Argument, Commands, Option
from odradek.show.events import read_events
from odradek.show.history import History, history_of
from odradek.show.mermaid import mermaid
from odradek.show.svg import drawn
from odradek.show.transaction import of_transaction
from odradek.usage import UsageError

__all__ = ["add_commands"]

FORMS: Mapping[str, Callable[[History], str]] = MappingProxyType({".svg": drawn, ".mmd": mermaid})
"""What writes a picture, by the end of the name of its file."""


def show(
    file: Annotated[Path, Argument(help="An event file: of `odradek serve --events`, a test, the demo.")],
    transaction: Annotated[
        str | None,
        Option(
            metavar="ID", help="The transactional id; else the one whose transaction ended last, or was heard of last."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        Option(
            metavar="PICTURE", help="The picture: NAME.svg, or NAME.mmd for Mermaid. Without it Mermaid is printed."
        ),
    ] = None,
) -> None:
    """Draw a transaction from an event file: who asked whom, what was decided, where it lies in the log."""
    if out is not None and out.suffix not in FORMS:
        raise UsageError(f"{out}: the name of a picture ends in {' or '.join(FORMS)}")
    picture = FORMS[out.suffix if out else ".mmd"](of_transaction(history_of(read_events(file)), transaction))
    if out is None:
        print(picture, end="")
        return
    try:
        out.write_text(picture, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{out}: {error.strerror}") from None


def add_commands(commands: Commands) -> None:
    """Add `show`."""
    commands.add("show", show)
