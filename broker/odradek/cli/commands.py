"""Commands as functions: their annotated parameters are the options, their docstrings the help.

    def greet(
        whom: Annotated[list[str], Argument(help="Who is there.")],
        times: Annotated[int, Option(help="How often.", min=1)] = 1,
    ) -> None: ...

The standard library parses them; what is wrong is a `UsageError`, one sentence.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from enum import Enum
from types import UnionType
from typing import Annotated, Any, NoReturn, get_args, get_origin

from msgspec import Struct

from odradek.cli.usage import UsageError

__all__ = ["Argument", "Commands", "Option"]

Run = Callable[..., None]
PLACEHOLDERS = {int: "N", float: "N"}
NOT_A_NUMBER = {int: "a whole number", float: "a number"}
Names = Callable[[], Sequence[str]]
"""The words that a shell offers as values; more may be allowed."""
WITHOUT_WORTH = (None, False, inspect.Parameter.empty)
HELP = ("-h", "--help")


class Option(Struct, frozen=True, kw_only=True):
    """A parameter `some_name` that is given as `--some-name VALUE`, or as `name`; several times where it is a list."""

    help: str = ""
    name: str | None = None
    short: str | None = None
    """A name of one letter, such as `-o`, which does the same."""
    min: float | None = None
    max: float | None = None
    metavar: str | None = None
    early: bool = False
    """In a group, it may stand before the command as well as behind it."""
    names: Names | None = None


class Argument(Struct, frozen=True, kw_only=True):
    """A parameter that is given by its position; one or more where it is a list, or any number if it has a default."""

    help: str = ""
    metavar: str | None = None
    names: Names | None = None


class Commands:
    """The commands of a program; a name of two words is one of a group."""

    def __init__(self, program: str, about: str, groups: dict[str, str]) -> None:
        self._program = program
        self._about = {"": about, **groups}
        self._commands: dict[str, Run] = {}

    def add(self, name: str, run: Run) -> None:
        """From now on the function is the command of this name."""
        self._commands[name] = run

    def run(self, words: Sequence[str]) -> None:
        """Do what a command line says; `SystemExit` carries an exit code, `UsageError` what is wrong."""
        words = self._behind_the_command(words)
        for count in (2, 1):
            name = " ".join(words[:count])
            if len(words) >= count and name in self._commands:
                command = self._commands[name]
                parser = _parser(f"{self._program} {name}", command)
                command(**vars(parser.parse_args(list(words[count:]))))
                return
        group = words[0] if words and words[0] in self._about else ""
        rest = words[1:] if group else words
        if rest and rest[0] not in HELP:
            self._unknown(group, rest[0])
        print(self.overview(group))
        raise SystemExit(0 if rest else 2)

    def options(self, group: str = "") -> dict[str, list[str]]:
        """The long options of every command, or of those of a group, by its name."""
        return {
            name: [option for option in _parser(name, run)._option_string_actions if option.startswith("--")]
            for name, run in self._commands.items()
            if not group or name.split()[0] == group
        }

    def values(self) -> dict[tuple[str, str], list[str]]:
        """The names that options and arguments take, by the command and the option; of an argument that is empty."""
        return {
            (name, "" if isinstance(declared, Argument) else _option_name(parameter, declared)): names
            for name, run in self._commands.items()
            for parameter, kind, declared in _declared(run)
            if (names := _names(kind, declared))
        }

    def _behind_the_command(self, words: Sequence[str]) -> Sequence[str]:
        """The words with the options of a group behind its command, where argparse looks for them."""
        if not words or not words[0] or words[0] not in self._about:
            return words
        early, at = self._early(words[0]), 1
        while at < len(words) and words[at].partition("=")[0] in early:
            has_value = early[words[at].partition("=")[0]] and "=" not in words[at]
            at += 2 if has_value else 1
        return words if at >= len(words) else [words[0], words[at], *words[1:at], *words[at + 1 :]]

    def _early(self, group: str) -> Mapping[str, bool]:
        """The options that may stand before the command, and whether they have a value."""
        return {
            _option_name(parameter, declared): kind is not bool
            for name, run in self._commands.items()
            if name.split()[0] == group
            for parameter, kind, declared in _declared(run)
            if isinstance(declared, Option) and declared.early
        }

    def _unknown(self, group: str, word: str) -> NoReturn:
        program = f"{self._program} {group}".strip()
        if group and word.partition("=")[0] in self._early(group):
            raise UsageError(f"Behind {word} there is no command: one of {', '.join(self._names(group))}.")
        what = "option" if word.startswith("-") else "command"
        option = word.partition("=")[0]
        if what == "option" and any(option in known for known in self.options(group).values()):
            raise UsageError(f"The option {option} goes behind the command: {program} COMMAND {option} …")
        known = ", ".join(self._names(group))
        raise UsageError(f"There is no {what} {word}: the commands of {program} are {known}.")

    def _names(self, group: str) -> list[str]:
        """The words that can come next."""
        prefix = f"{group} " if group else ""
        found = [name.removeprefix(prefix).split()[0] for name in self._commands if name.startswith(prefix)]
        return list(dict.fromkeys(found))

    def overview(self, group: str = "") -> str:
        """What `--help` prints of the program, or of a group of commands."""
        program = f"{self._program} {group}".strip()
        names = self._names(group)
        width = max(map(len, names)) + 2
        early = "".join(f" [{option}{' …' * has_value}]" for option, has_value in self._early(group).items())
        lines = [f"usage: {program}{early} COMMAND …", f"       {program} COMMAND --help", "", self._about[group], ""]
        for name in names:
            command = self._commands.get(f"{group} {name}".strip())
            about = self._about[name] if command is None else _summary(command)
            lines.append(f"  {name:{width}}{about}")
        return "\n".join(lines)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, and leaves it to the program to end."""

    def error(self, message: str) -> NoReturn:
        what = message.removeprefix("argument ")
        raise UsageError(f"{what[0].upper() + what[1:] if what[0].islower() else what} (see {self.prog} --help).")

    def print_help(self, file: object = None) -> None:
        """On standard output; the library's own way says nothing where that has no place for it."""
        print(self.format_help(), end="")

    def parse_args(self, words: list[str]) -> argparse.Namespace:  # type: ignore[override]
        """All of the words, or a sentence about the first that means nothing."""
        parsed, rest = self.parse_known_args(words)
        if rest:
            self._unknown(rest[0])
        return parsed

    def _unknown(self, word: str) -> NoReturn:
        if not word.startswith("-"):
            self.error(f"there is no place for {word}")
        near = get_close_matches(word.partition("=")[0], self._option_string_actions, n=1, cutoff=0.7)
        self.error(f"there is no option {word}" + (f", did you mean {near[0]}?" if near else ""))


def _parser(program: str, command: Run) -> _Parser:
    parser = _Parser(
        prog=program,
        description=inspect.getdoc(command),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for parameter, _, _ in _declared(command):
        _add(parser, parameter)
    return parser


def _declared(command: Run) -> Iterator[tuple[inspect.Parameter, object, Option | Argument]]:
    """The parameters of a command, with the types of their values and what is declared of them."""
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        kind, declared = get_args(parameter.annotation)
        yield parameter, _plain(kind)[0], declared


def _option_name(parameter: inspect.Parameter, declared: Option) -> str:
    return declared.name or f"--{parameter.name.replace('_', '-')}"


def _names(kind: object, declared: Option | Argument) -> list[str]:
    """The words that a shell offers as values."""
    if declared.names is not None:
        return list(declared.names())
    return [each.value for each in kind] if isinstance(kind, type) and issubclass(kind, Enum) else []


def _add(parser: _Parser, parameter: inspect.Parameter) -> None:
    kind, declared = get_args(parameter.annotation)
    kind, many = _plain(kind)
    required = parameter.default is inspect.Parameter.empty
    settings: dict[str, Any] = {"help": _help(declared.help, parameter.default)}
    if kind is bool:
        settings["action"] = "store_true"
    else:
        settings["type"] = _reader(kind, declared)
        settings["default"] = None if required else parameter.default
        named = parameter.name.upper()
        settings["metavar"] = declared.metavar or (
            PLACEHOLDERS.get(kind, named) if isinstance(declared, Option) else named
        )
        if isinstance(kind, type) and issubclass(kind, Enum):
            settings["metavar"] = "|".join(each.value for each in kind)
    if isinstance(declared, Argument):
        settings["nargs"] = ("+" if required else "*") if many else None if required else "?"
        parser.add_argument(parameter.name, **settings)
        return
    if many:
        settings["action"] = "append"
    names = [_option_name(parameter, declared), *([declared.short] if declared.short else [])]
    parser.add_argument(*names, dest=parameter.name, required=required, **settings)


def _plain(kind: Any) -> tuple[Any, bool]:
    """The type of one value, and whether there may be several."""
    if isinstance(kind, UnionType):
        (kind,) = (each for each in get_args(kind) if each is not type(None))
    if get_origin(kind) is Annotated:
        return _plain(get_args(kind)[0])
    return (get_args(kind)[0], True) if get_origin(kind) is list else (kind, False)


def _help(about: str, default: object) -> str:
    told = default.value if isinstance(default, Enum) else default
    whole = about if any(default is nothing for nothing in WITHOUT_WORTH) else f"{about} [{told}]".strip()
    return whole.replace("%", "%%")


def _reader(kind: Any, declared: Option | Argument) -> Callable[[str], object]:
    """From a word to a value; the complaint is what `argparse` puts after the name of the option."""

    def read(word: str) -> object:
        try:
            value = kind(word)
        except ValueError:
            expected = NOT_A_NUMBER.get(kind) or "one of " + ", ".join(each.value for each in kind)
            raise argparse.ArgumentTypeError(f"{word} is not {expected}") from None
        if isinstance(declared, Option) and not isinstance(value, str):
            if declared.min is not None and not value >= declared.min:
                raise argparse.ArgumentTypeError(f"{word} is below {declared.min}")
            if declared.max is not None and not value <= declared.max:
                raise argparse.ArgumentTypeError(f"{word} is above {declared.max}")
        return value

    return read


def _summary(command: Run) -> str:
    """The first sentence of a docstring."""
    return (inspect.getdoc(command) or "").split("\n")[0]
