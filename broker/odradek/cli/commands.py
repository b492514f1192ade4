"""Commands as functions: annotated parameters are the options, the docstring is the help.

    def greet(
        whom: Annotated[list[str], Argument(help="The guests.")],
        times: Annotated[int, Option(help="How often.", min=1)] = 1,
    ) -> None: ...

The standard library parses the command line; a mistake in it is a `UsageError` of one sentence.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
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
    """A parameter `some_name`, given as `--some-name VALUE`, or as `--name VALUE` if it has a `name`; a list may be
    given repeatedly.
    """

    help: str = ""
    name: str | None = None
    short: str | None = None
    """A short name of one letter, such as `-o`."""
    min: float | None = None
    max: float | None = None
    metavar: str | None = None
    early: bool = False
    """In a group of commands the option may also stand before the command."""
    names: Names | None = None
    hidden: bool = False
    """An older way to say it, which is taken and not told of."""


class Argument(Struct, frozen=True, kw_only=True):
    """A positional parameter; a list takes one or more values, or any number if it has a default."""

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
        """A decorator: register the function as the command of this name."""
        self._commands[name] = run

    def run(self, words: Sequence[str]) -> None:
        """Run a command line. `SystemExit` carries an exit code, `UsageError` a mistake of the user."""
        words = self._behind_the_command(words)
        for count in (2, 1):
            name = " ".join(words[:count])
            if len(words) >= count and name in self._commands:
                command = self._commands[name]
                parser = _parser(f"{self._program} {name}", command)
                _call(command, vars(parser.parse_args(list(words[count:]))))
                return
        group = words[0] if words and words[0] in self._about else ""
        rest = words[1:] if group else words
        if rest and rest[0] not in HELP:
            self._unknown(group, rest[0])
        print(self.overview(group))
        raise SystemExit(0 if rest else 2)

    def options(self, group: str = "") -> dict[str, list[str]]:
        """The long options of every command, or of one group, by command name."""
        return {
            name: [
                option
                for option, action in _parser(name, run)._option_string_actions.items()
                if option.startswith("--") and action.help is not argparse.SUPPRESS
            ]
            for name, run in self._commands.items()
            if not group or name.split()[0] == group
        }

    def values(self) -> dict[tuple[str, str], list[str]]:
        """The names that options and arguments accept, by command and option; the option of an argument is empty."""
        return {
            (name, "" if isinstance(declared, Argument) else _option_name(parameter, declared)): names
            for name, run in self._commands.items()
            for parameter, kind, declared in _declared(run)
            if (names := _names(kind, declared))
        }

    def _behind_the_command(self, words: Sequence[str]) -> Sequence[str]:
        """The command line with the options of a group moved behind its command, where argparse expects them."""
        if not words or not words[0] or words[0] not in self._about:
            return words
        early, at = self._early(words[0]), 1
        while at < len(words) and words[at].partition("=")[0] in early:
            has_value = early[words[at].partition("=")[0]] and "=" not in words[at]
            at += 2 if has_value else 1
        return words if at >= len(words) else [words[0], words[at], *words[1:at], *words[at + 1 :]]

    def _early(self, group: str) -> Mapping[str, bool]:
        """The options that may stand before the command, and whether each takes a value."""
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
        """The text of `--help` for the program or a group of commands."""
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

    def _unknown(self, word: str) -> NoReturn:
        if not word.startswith("-"):
            self.error(f"there is no place for {word}")
        from difflib import get_close_matches  # most command lines have no mistake

        near = get_close_matches(word.partition("=")[0], self._option_string_actions, n=1, cutoff=0.7)
        self.error(f"there is no option {word}" + (f", did you mean {near[0]}?" if near else ""))


def _parser(program: str, command: Run) -> _Parser:
    parser = _Parser(
        prog=program,
        description=inspect.getdoc(command),
        formatter_class=_unprinted,
        allow_abbrev=False,
    )
    for parameter, _, _ in _declared(command):
        _add(parser, parameter)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    return parser


def _unprinted(prog: str) -> argparse.HelpFormatter:
    """The formatter that argparse makes for each argument, to check it; without a width it asks for the terminal's."""
    return argparse.HelpFormatter(prog, width=80)


@cache
def _parameters(of: Callable[..., object]) -> Mapping[str, inspect.Parameter]:
    """Parameters with the types that their annotations name; evaluating these takes milliseconds."""
    return inspect.signature(of, eval_str=True).parameters


def _call(command: Run, values: dict[str, object]) -> None:
    for name, bundle in _bundles(command).items():
        values[name] = bundle(**{each: values.pop(each) for each in _parameters(bundle)})
    command(**values)


def _bundles(command: Run) -> Mapping[str, Callable[..., object]]:
    """The parameters of a command that are classes, each of which stands for the options of its constructor."""
    given = _parameters(command).items()
    return {name: each.annotation for name, each in given if isinstance(each.annotation, type)}


def _declared(command: Run) -> Iterator[tuple[inspect.Parameter, object, Option | Argument]]:
    """The parameters of a command, with the types of their values and their declarations; its own ones come first."""
    bundles = _bundles(command)
    for owner in (command, *bundles.values()):
        for parameter in _parameters(owner).values():
            if parameter.name not in bundles:
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
    is_hidden = isinstance(declared, Option) and declared.hidden
    settings: dict[str, Any] = {"help": argparse.SUPPRESS if is_hidden else _help(declared.help, parameter.default)}
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
    """The conversion of a word to a value; argparse prints the complaint behind the name of the option."""

    def read(word: str) -> object:
        if not word and kind is Path:
            raise argparse.ArgumentTypeError("a path is needed, and this one is empty")
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
    return (inspect.getdoc(command) or "").split("\n")[0]
