"""Commands as functions: annotated parameters are the options, the docstring is the help.

    def greet(
        whom: Annotated[list[str], Argument(help="The guests.")],
        times: Annotated[int, Option(help="How often.", min=1)] = 1,
    ) -> None: ...

A command line of long options is read by `options.py`; any other by the standard library (`parser.py`), whose import
takes longer than the rest. A mistake in it is a `UsageError` of one sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NoReturn

from odradek.cli.options import Argument, Option, Run, bundles, declared, option_name, parameters, plain_values
from odradek.cli.usage import UsageError

__all__ = ["Argument", "Commands", "Option"]

HELP = ("-h", "--help")


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
                command, options = self._commands[name], list(words[count:])
                _call(command, plain_values(command, options) or self._parsed(name, options))
                return
        group = words[0] if words and words[0] in self._about else ""
        rest = words[1:] if group else words
        if rest and rest[0] not in HELP:
            self._unknown(group, rest[0])
        print(self.overview(group))
        raise SystemExit(0 if rest else 2)

    def _parsed(self, name: str, words: list[str]) -> dict[str, object]:
        from odradek.cli.parser import parser_of  # most starts of a broker do without

        return vars(parser_of(f"{self._program} {name}", self._commands[name]).parse_args(words))

    def options(self, group: str = "") -> dict[str, list[str]]:
        """The long options of every command, or of one group, by command name."""
        from odradek.cli.parser import parser_of

        return {
            name: parser_of(name, run).long_options()
            for name, run in self._commands.items()
            if not group or name.split()[0] == group
        }

    def values(self) -> dict[tuple[str, str], list[str]]:
        """The names that options and arguments accept, by command and option; the option of an argument is empty."""
        return {
            (name, "" if isinstance(about, Argument) else option_name(parameter, about)): names
            for name, run in self._commands.items()
            for parameter, kind, about in declared(run)
            if (names := _names(kind, about))
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
            option_name(parameter, about): kind is not bool
            for name, run in self._commands.items()
            if name.split()[0] == group
            for parameter, kind, about in declared(run)
            if isinstance(about, Option) and about.early
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


def _call(command: Run, values: dict[str, object]) -> None:
    for name, bundle in bundles(command).items():
        values[name] = bundle(**{each: values.pop(each) for each in parameters(bundle)})
    command(**values)


def _names(kind: object, about: Option | Argument) -> list[str]:
    """The words that a shell offers as values."""
    if about.names is not None:
        return list(about.names())
    return [each.value for each in kind] if isinstance(kind, type) and issubclass(kind, Enum) else []


def _summary(command: Run) -> str:
    return (command.__doc__ or "").strip().split("\n")[0]
