"""Parameters of functions as options of a command line, and the values that its words stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from types import FunctionType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args, get_origin

from msgspec import Struct

if TYPE_CHECKING:
    from pathlib import Path
else:

    class Path:
        """`pathlib.Path`, imported with the first path of a command line: with all that it imports it takes 3 ms."""

        def __new__(cls, word: str) -> object:
            from pathlib import Path

            return Path(word)


__all__ = [
    "REQUIRED",
    "Argument",
    "NotAValue",
    "Option",
    "Parameter",
    "Path",
    "Run",
    "bundles",
    "declared",
    "option_name",
    "parameters",
    "plain_kind",
    "plain_values",
    "value_of",
]

Run = Callable[..., None]
REQUIRED = object()
"""The default of a parameter that has none."""
NOT_A_NUMBER: Mapping[object, str] = {int: "a whole number", float: "a number"}
Names = Callable[[], Sequence[str]]
"""The words that a shell offers as values; more may be allowed."""


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


class Parameter(Struct, frozen=True):
    """A parameter of a function or a constructor."""

    name: str
    annotation: object
    default: object


@cache
def parameters(of: Callable[..., object]) -> Mapping[str, Parameter]:
    """Parameters with the types that their annotations name; evaluating these takes milliseconds."""
    if isinstance(of, FunctionType) and not of.__dict__ and not of.__code__.co_kwonlyargcount:
        # `serve` is so plain that it needs no `inspect`, which takes 5 % of a start; a decorator leaves marks.
        names = of.__code__.co_varnames[: of.__code__.co_argcount]
        defaults = of.__defaults__ or ()
        of_each = zip(names, [REQUIRED] * (len(names) - len(defaults)) + [*defaults], strict=True)
        return {name: Parameter(name, _annotation(of, name), default) for name, default in of_each}
    from inspect import signature

    return {
        name: Parameter(name, each.annotation, REQUIRED if each.default is each.empty else each.default)
        for name, each in signature(of, eval_str=True).parameters.items()
    }


def _annotation(of: FunctionType, name: str) -> object:
    declared = of.__annotations__[name]
    return eval(declared, of.__globals__) if isinstance(declared, str) else declared


def bundles(command: Run) -> Mapping[str, Callable[..., object]]:
    """The parameters of a command that are classes, each of which stands for the options of its constructor."""
    given = parameters(command).items()
    return {name: each.annotation for name, each in given if isinstance(each.annotation, type)}


def declared(command: Run) -> Iterator[tuple[Parameter, object, Option | Argument]]:
    """The parameters of a command, with the types of their values and their declarations; its own ones come first."""
    bundled = bundles(command)
    for owner in (command, *bundled.values()):
        for parameter in parameters(owner).values():
            if parameter.name not in bundled:
                kind, about = get_args(parameter.annotation)
                yield parameter, plain_kind(kind)[0], about


def option_name(parameter: Parameter, about: Option) -> str:
    """The long name of an option."""
    return about.name or f"--{parameter.name.replace('_', '-')}"


def plain_kind(kind: Any) -> tuple[Any, bool]:
    """The type of one value, and whether there may be several."""
    if isinstance(kind, UnionType):
        (kind,) = (each for each in get_args(kind) if each is not type(None))
    if get_origin(kind) is Annotated:
        return plain_kind(get_args(kind)[0])
    return (get_args(kind)[0], True) if get_origin(kind) is list else (kind, False)


class NotAValue(ValueError):
    """A word that stands for no value; the text says why not."""


def value_of(word: str, kind: Callable[[str], object], about: Option | Argument) -> object:
    """The value that a word stands for. Raises `NotAValue`."""
    if not word and getattr(kind, "__name__", None) == Path.__name__:
        raise NotAValue("a path is needed, and this one is empty")
    try:
        value = kind(word)
    except ValueError:
        expected = NOT_A_NUMBER.get(kind) or "one of " + ", ".join(each.value for each in cast("type[Enum]", kind))
        raise NotAValue(f"{word} is not {expected}") from None
    if isinstance(about, Option) and isinstance(value, int | float):
        if about.min is not None and not value >= about.min:
            raise NotAValue(f"{word} is below {about.min}")
        if about.max is not None and not value <= about.max:
            raise NotAValue(f"{word} is above {about.max}")
    return value


def plain_values(command: Run, words: Sequence[str]) -> dict[str, object] | None:
    """The values of a command line that has nothing but long options, each with its value; None for any other.

    Whatever argparse might read in another way, or refuse, is left to it.
    """
    options: dict[str, tuple[str, Any, Option, bool]] = {}
    values: dict[str, object] = {}
    lists: dict[str, list[object]] = {}
    for parameter, kind, about in declared(command):
        many = plain_kind(get_args(parameter.annotation)[0])[1]
        if isinstance(about, Argument) or (many and parameter.default):
            return None
        options[option_name(parameter, about)] = parameter.name, kind, about, many
        values[parameter.name] = parameter.default
    rest = iter(words)
    for word in rest:
        option, equals, text = word.partition("=")
        if option not in options:
            return None
        name, kind, about, many = options[option]
        if kind is bool:
            if equals:
                return None
            values[name] = True
            continue
        if not equals:
            text = next(rest, "-")
            if text.startswith("-"):
                return None
        try:
            value = value_of(text, kind, about)
        except NotAValue:
            return None
        if many:
            lists.setdefault(name, []).append(value)
        else:
            values[name] = value
    values |= lists
    return None if REQUIRED in values.values() else values
