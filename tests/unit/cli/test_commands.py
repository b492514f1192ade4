"""Command lines as functions."""

from __future__ import annotations

import inspect
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pytest

from odradek.cli.all_commands import commands_for, completion
from odradek.cli.commands import Argument, Commands, Option
from odradek.cli.options import plain_values
from odradek.cli.parser import parser_of
from odradek.cli.serve_command import serve
from odradek.cli.small_commands import SMALL
from odradek.cli.usage import UsageError
from odradek.demo.cli import consume_command, play, produce_command


class Sort(StrEnum):
    TART = "tart"
    CAKE = "cake"


class Kitchen:
    """Remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: dict[str, object] = {}
        self.commands = Commands("kitchen", "Bakes.", {"oven": "All about the oven."})
        self.commands.add("bake", self.bake)
        self.commands.add("oven heat", self.heat)
        self.commands.add("oven", self.oven)

    def bake(
        self,
        recipes: Annotated[list[Path], Argument(help="What to bake.", metavar="RECIPE")],
        pieces: Annotated[int, Option(help="How many, 100% done.", min=1, max=12)] = 3,
        sugar: Annotated[float | None, Option(help="How sweet.")] = None,
        sort: Annotated[Sort, Option(help="Of what kind.")] = Sort.CAKE,
        guest: Annotated[list[str] | None, Option(help="For whom.")] = None,
        set_: Annotated[str, Option(name="--set", help="The table.")] = "",
        dark: Annotated[bool, Option(help="Longer.")] = False,
    ) -> None:
        """Bake something.

        It takes a while.
        """
        self.asked = {key: value for key, value in locals().items() if key != "self"}

    def heat(self, to: Annotated[int, Option(help="Degrees.")]) -> None:
        """Heat it."""
        self.asked = {"to": to}

    def oven(self, which: Annotated[Path, Argument(help="One of them.")] = Path("upper")) -> None:
        """Look at it."""
        self.asked = {"oven": which}


@pytest.fixture
def kitchen() -> Kitchen:
    return Kitchen()


def refused(kitchen: Kitchen, *words: str) -> str:
    with pytest.raises(UsageError) as wrong:
        kitchen.commands.run(words)
    assert {} == kitchen.asked
    return str(wrong.value)


def shown(kitchen: Kitchen, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[object, str]:
    """The exit code, and what is printed."""
    with pytest.raises(SystemExit) as ended:
        kitchen.commands.run(words)
    return ended.value.code, capsys.readouterr().out


def test_what_is_not_given_is_the_default(kitchen: Kitchen) -> None:
    kitchen.commands.run(["bake", "a.txt"])
    expected = {"recipes": [Path("a.txt")], "pieces": 3, "sugar": None, "sort": Sort.CAKE}
    assert expected | {"guest": None, "set_": "", "dark": False} == kitchen.asked


def test_values_have_the_types_of_the_parameters(kitchen: Kitchen) -> None:
    words = "a b --pieces 4 --sugar=0.5 --sort tart --guest Ann --guest Bob --set blue --dark"
    kitchen.commands.run(["bake", *words.split()])
    expected = {"recipes": [Path("a"), Path("b")], "pieces": 4, "sugar": 0.5, "sort": Sort.TART}
    assert expected | {"guest": ["Ann", "Bob"], "set_": "blue", "dark": True} == kitchen.asked


def test_a_group_may_be_a_command_as_well(kitchen: Kitchen) -> None:
    kitchen.commands.run(["oven", "heat", "--to", "180"])
    assert {"to": 180} == kitchen.asked
    kitchen.commands.run(["oven"])
    assert {"oven": Path("upper")} == kitchen.asked
    kitchen.commands.run(["oven", "lower"])
    assert {"oven": Path("lower")} == kitchen.asked


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["bake", "a", "--peaces", "4"], "There is no option --peaces, did you mean --pieces? (see kitchen bake"),
        (["bake", "a", "--piece", "4"], "There is no option --piece, did you mean --pieces?"),
        (["bake", "a", "--sides", "4"], "There is no option --sides (see kitchen bake --help)."),
        (["bake", "a", "--zzz=4"], "There is no option --zzz=4 (see kitchen bake --help)."),
        (["bake", "a", "--pieces"], "--pieces: expected one argument (see kitchen bake --help)."),
        (["bake", "a", "--pieces", "many"], "--pieces: many is not a whole number (see kitchen bake --help)."),
        (["bake", "a", "--sugar", "much"], "--sugar: much is not a number"),
        (["bake", "a", "--pieces", "0"], "--pieces: 0 is below 1"),
        (["bake", "a", "--pieces", "13"], "--pieces: 13 is above 12"),
        (["bake", "a", "--sort", "pie"], "--sort: pie is not one of tart, cake"),
        (["bake"], "The following arguments are required: RECIPE"),
        (["oven", "heat", "--to", "180", "now"], "There is no place for now (see kitchen oven heat --help)."),
        (["bakke"], "There is no command bakke: the commands of kitchen are bake, oven."),
        (["--dark", "bake"], "The option --dark goes behind the command: kitchen COMMAND --dark …"),
        (["--pieces=3", "bake"], "The option --pieces goes behind the command: kitchen COMMAND --pieces …"),
        (["--bake"], "There is no option --bake: the commands of kitchen are bake, oven."),
    ],
)
def test_what_is_wrong_is_one_sentence(kitchen: Kitchen, words: list[str], sentence: str) -> None:
    said = refused(kitchen, *words)
    assert said.startswith(sentence)
    assert "\n" not in said


def test_not_a_number_is_neither_above_nor_below(capsys: pytest.CaptureFixture[str]) -> None:
    def wait(seconds: Annotated[float, Option(min=0)] = 0) -> None:
        raise AssertionError("never")

    commands = Commands("kitchen", "", {})
    commands.add("wait", wait)
    with pytest.raises(UsageError, match="nan is below 0"):
        commands.run(["wait", "--seconds", "nan"])


def test_arguments_are_called_by_what_they_are() -> None:
    def heat(
        degrees: Annotated[int, Argument(help="How hot.")], minutes: Annotated[int, Argument(help="For how long.")]
    ) -> None:
        raise AssertionError("never")

    commands = Commands("kitchen", "", {})
    commands.add("heat", heat)
    with pytest.raises(UsageError, match="required: DEGREES, MINUTES "):
        commands.run(["heat"])


def test_the_help_of_a_command(kitchen: Kitchen, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = shown(kitchen, capsys, "bake", "--help")
    assert 0 == code
    for part in ("kitchen bake", "It takes a while.", "RECIPE", "How many, 100% done. [3]", "[cake]", "tart|cake"):
        assert part in said
    assert "None" not in said


def test_the_overview(kitchen: Kitchen, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = shown(kitchen, capsys, "--help")
    assert 0 == code
    assert ["  bake  Bake something.", "  oven  Look at it."] == said.splitlines()[-2:]
    assert (2, said) == shown(kitchen, capsys)


def test_the_overview_of_a_group_that_is_no_command(kitchen: Kitchen, capsys: pytest.CaptureFixture[str]) -> None:
    commands = Commands("kitchen", "Bakes.", {"oven": "All about the oven."})
    commands.add("oven heat", kitchen.heat)
    kitchen.commands = commands
    assert "  oven  All about the oven." == shown(kitchen, capsys, "-h")[1].splitlines()[-1]
    code, said = shown(kitchen, capsys, "oven", "--help")
    assert (0, "  heat  Heat it.") == (code, said.splitlines()[-1])
    assert "There is no command cool: the commands of kitchen oven are heat." == refused(kitchen, "oven", "cool")
    behind = "The option --to goes behind the command: kitchen oven COMMAND --to …"
    assert behind == refused(kitchen, "oven", "--to", "180", "heat")


@pytest.mark.parametrize("command", [serve, *SMALL.values(), completion, play, produce_command, consume_command])
def test_every_parameter_of_the_product_has_a_help(command: object) -> None:
    assert callable(command)
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        options = parameter.annotation
        bundled = inspect.signature(options, eval_str=True).parameters.values() if isinstance(options, type) else ()
        for each in bundled or (parameter,):
            assert each.annotation.__metadata__[0].help, each


PLAIN: list[list[str]] = [
    [],
    ["--port", "0", "--log-level=error", "--json"],
    ["--topic", "orders", "--topic=menus:3", "--set", "a=b", "--set=c=d=e"],
    ["--data-dir", "here/data", "--record=run.rec", "--sync", "--sync"],
    ["--brokers", "3", "--brokers", "5", "--transaction-version=2"],
    ["--host=", "--cluster-id", "", "--user", "alice:a b"],
    ["--certs", "folder", "--story", "late", "--seed=-5"],
]
"""Command lines that are read without argparse."""


@pytest.mark.parametrize("words", PLAIN, ids=" ".join)
def test_a_plain_command_line_is_read_as_argparse_reads_it(words: list[str]) -> None:
    assert vars(parser_of("odradek serve", serve).parse_args(words)) == plain_values(serve, words)


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["-h"],
        ["--prot", "0"],
        ["here"],
        ["--port"],
        ["--port", "--json"],
        ["--port", "many"],
        ["--port", "-1"],
        ["--brokers", "0"],
        ["--transaction-version", "3"],
        ["--json=yes"],
        ["--data-dir", ""],
        ["--", "--json"],
    ],
    ids=" ".join,
)
def test_any_other_command_line_is_left_to_argparse(words: list[str]) -> None:
    assert plain_values(serve, words) is None


def test_a_command_with_arguments_or_without_a_needed_option_is_left_to_argparse(kitchen: Kitchen) -> None:
    assert plain_values(kitchen.bake, ["--dark"]) is None
    assert plain_values(kitchen.heat, []) is None
    assert {"to": 180} == plain_values(kitchen.heat, ["--to", "180"])


OTHERS = ("odradek.sim", "odradek.control", "odradek.demo", "odradek_pipeline")


@pytest.mark.parametrize(("command", "its_own"), [
    ("serve", ()),
    ("health", ()),
    ("demo", ("odradek.demo",)),
    ("ctl", ("odradek.control",)),
    ("sim", ("odradek.sim", "odradek.control")),
    ("report", ("odradek_pipeline",)),
])  # fmt: skip
def test_a_command_waits_for_nothing_of_the_others(command: str, its_own: tuple[str, ...]) -> None:
    """The producers of the demo start again all the time, and the simulator takes longest to import."""
    program = (
        f"import sys; sys.argv = ['odradek', '{command}', '--help']\n"
        "from odradek.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {other for other in OTHERS for name in done.stdout.splitlines()[-1].split() if name.startswith(other)}
    assert loaded <= set(its_own)
    assert f"usage: odradek {command}" in done.stdout


def test_every_command_has_a_family() -> None:
    """One that had none would be known to the help alone."""
    everything = commands_for(None)
    for name in everything.options():
        assert name in commands_for(name.split()[0]).options()
