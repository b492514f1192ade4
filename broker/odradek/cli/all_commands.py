"""The commands of `odradek`: `serve`, and the modules that add others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from odradek.cli import offered
from odradek.cli.commands import Argument, Commands
from odradek.cli.serve_command import serve

__all__ = ["commands_for"]

ABOUT = (
    "A Kafka broker for tests: "
    "one Python process that speaks the Kafka protocol and runs the real transaction machinery."
)
GROUPS = {
    "audit": "Did exactly-once hold? Audits of log directories, client histories and the broker's events.",
    "ctl": "Drive the clusters of a hub (odradek hub, odradek serve --control).",
}


def completion(shell: Annotated[str, Argument(names=offered.shells, help="bash, zsh or fish.")]) -> None:
    """Print what the shell reads to complete these commands: source <(odradek completion bash)."""
    from odradek.cli.completion import script

    commands = commands_for(None)
    print(script(shell, commands.options(), commands.values()), end="")


def _add_small(commands: Commands) -> None:
    from odradek.cli.small_commands import SMALL

    for name, command in SMALL.items():
        commands.add(name, command)
    commands.add("completion", completion)


def _add_demo(commands: Commands) -> None:
    from odradek.demo.cli import add_commands

    add_commands(commands)


def _add_control(commands: Commands) -> None:
    from odradek.control.cli import add_commands

    add_commands(commands)


def _add_sim(commands: Commands) -> None:
    from odradek.sim.command import add_commands

    add_commands(commands)


def _add_replay(commands: Commands) -> None:
    from odradek.replay.command import add_commands

    add_commands(commands)


def _add_show(commands: Commands) -> None:
    from odradek.show.command import add_commands

    add_commands(commands)


def _add_conform(commands: Commands) -> None:
    from odradek.conform.command import add_commands

    add_commands(commands)


def _add_pipeline(commands: Commands) -> None:
    try:
        from odradek_pipeline.commands.cli import add_commands
    except ModuleNotFoundError:  # in a checkout whose import path has only the broker
        return
    add_commands(commands)


FAMILIES: dict[tuple[str, ...], Callable[[Commands], None]] = {
    ("certs", "dialects", "health", "stories", "codec-check", "completion"): _add_small,
    ("demo",): _add_demo,
    ("hub", "ctl"): _add_control,
    ("sim",): _add_sim,
    ("replay",): _add_replay,
    ("show",): _add_show,
    ("conform",): _add_conform,
    ("scan", "audit", "watch", "copy", "report"): _add_pipeline,
}
"""Families of commands: their first words, and the module that adds them."""


def commands_for(first: str | None) -> Commands:
    """The command `serve`, and those of the named family; other families are not imported.

    All commands if the name is not a family's: for the help, and to suggest a correction of a mistyped name.
    """
    commands = Commands("odradek", ABOUT, GROUPS)
    commands.add("serve", serve)
    named = [add for words, add in FAMILIES.items() if first in words]
    for add in named if named or first == "serve" else FAMILIES.values():
        add(commands)
    return commands
