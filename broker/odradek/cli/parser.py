"""The command line of a command for argparse, which also writes the help; its mistakes are one sentence."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from enum import Enum
from inspect import getdoc
from typing import Any, NoReturn, get_args

from odradek.cli.options import (
    REQUIRED,
    Argument,
    NotAValue,
    Option,
    Parameter,
    Run,
    declared,
    option_name,
    plain_kind,
    value_of,
)
from odradek.cli.usage import UsageError

__all__ = ["Parser", "parser_of"]

PLACEHOLDERS = {int: "N", float: "N"}
WITHOUT_WORTH = (None, False, REQUIRED)


class Parser(argparse.ArgumentParser):
    """An argument parser that raises its mistakes as one sentence in place of ending the process."""

    def error(self, message: str) -> NoReturn:
        what = message.removeprefix("argument ")
        raise UsageError(f"{what[0].upper() + what[1:] if what[0].islower() else what} (see {self.prog} --help).")

    def print_help(self, file: object = None) -> None:
        """Print to standard output, and raise if that fails; argparse would ignore it."""
        print(self.format_help(), end="")

    def parse_args(self, words: list[str]) -> argparse.Namespace:  # type: ignore[override]
        """All words of a list; a sentence about the first unknown one."""
        parsed, rest = self.parse_known_args(words)
        if rest:
            self._unknown(rest[0])
        return parsed

    def long_options(self) -> list[str]:
        """All that the help tells of."""
        return [
            option
            for option, action in self._option_string_actions.items()
            if option.startswith("--") and action.help is not argparse.SUPPRESS
        ]

    def _unknown(self, word: str) -> NoReturn:
        if not word.startswith("-"):
            self.error(f"there is no place for {word}")
        from difflib import get_close_matches  # most command lines have no mistake

        near = get_close_matches(word.partition("=")[0], self._option_string_actions, n=1, cutoff=0.7)
        self.error(f"there is no option {word}" + (f", did you mean {near[0]}?" if near else ""))


def parser_of(program: str, command: Run) -> Parser:
    """A parser of all options and arguments of a command."""
    parser = Parser(
        prog=program,
        description=getdoc(command),
        formatter_class=_unprinted,
        allow_abbrev=False,
    )
    for parameter, _, _ in declared(command):
        _add(parser, parameter)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    return parser


def _unprinted(prog: str) -> argparse.HelpFormatter:
    """The formatter that argparse makes for each argument, to check it; without a width it asks for the terminal's."""
    return argparse.HelpFormatter(prog, width=80)


def _add(parser: Parser, parameter: Parameter) -> None:
    kind, about = get_args(parameter.annotation)
    kind, many = plain_kind(kind)
    required = parameter.default is REQUIRED
    is_hidden = isinstance(about, Option) and about.hidden
    settings: dict[str, Any] = {"help": argparse.SUPPRESS if is_hidden else _help(about.help, parameter.default)}
    if kind is bool:
        settings["action"] = "store_true"
    else:
        settings["type"] = _reader(kind, about)
        settings["default"] = None if required else parameter.default
        named = parameter.name.upper()
        settings["metavar"] = about.metavar or (PLACEHOLDERS.get(kind, named) if isinstance(about, Option) else named)
        if isinstance(kind, type) and issubclass(kind, Enum):
            settings["metavar"] = "|".join(each.value for each in kind)
    if isinstance(about, Argument):
        settings["nargs"] = ("+" if required else "*") if many else None if required else "?"
        parser.add_argument(parameter.name, **settings)
        return
    if many:
        settings["action"] = "append"
    names = [option_name(parameter, about), *([about.short] if about.short else [])]
    parser.add_argument(*names, dest=parameter.name, required=required, **settings)


def _help(about: str, default: object) -> str:
    told = default.value if isinstance(default, Enum) else default
    whole = about if any(default is nothing for nothing in WITHOUT_WORTH) else f"{about} [{told}]".strip()
    return whole.replace("%", "%%")


def _reader(kind: Callable[[str], object], about: Option | Argument) -> Callable[[str], object]:
    """The conversion of a word to a value; argparse prints the complaint behind the name of the option."""

    def read(word: str) -> object:
        try:
            return value_of(word, kind, about)
        except NotAValue as complaint:
            raise argparse.ArgumentTypeError(str(complaint)) from None

    return read
