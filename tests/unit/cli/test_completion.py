"""What a shell offers after some words."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from odradek.cli.all_commands import commands_for
from odradek.cli.commands import Commands
from odradek.cli.completion import SHELLS, script
from odradek.cli.usage import UsageError
from odradek.control.stories import names as stories
from odradek.releases.dialects.load import names as dialects
from odradek.releases.table import RELEASES
from odradek.sim.workloads.catalogue import FOCUSES


@pytest.fixture(scope="module")
def commands() -> Commands:
    return commands_for(None)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["se"], ["serve"]),
        (["ctl", "tra"], ["transactions"]),
        (["ctl", "make", "--tr"], ["--transaction-version"]),
        (["serve", "--adv"], ["--advertised-host", "--advertised-port"]),
        (["hub", "--url"], ["--url-file"]),
        (["serve", "--port", "0", "--story", "downgrade"], ["downgrade-under-way"]),
        (["ctl", "make", "--story", ""], stories()),
        (["stories", "epoch"], ["epoch-overflow"]),
        (["serve", "--as-kafka", ""], list(RELEASES)),
        (["ctl", "make", "--as-kafka", "3."], ["3.3", "3.6", "3.9"]),
        (["serve", "--dialect", ""], dialects()),
        (["dialects", "show", "kip-3"], ["kip-360-text"]),
        (["sim", "--workload", ""], [*FOCUSES, "all"]),
        (["sim", "--verification", ""], ["on", "off"]),
        (["hub", "--log-level", "w"], ["warning"]),
        (["serve", "--security", "ssl"], ["ssl"]),
        (["completion", "f"], ["fish"]),
    ],
)
def test_bash_offers_what_may_come(commands: Commands, words: list[str], offered: list[str]) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    line = " ".join(f'"{word}"' for word in ["odradek", *words])
    asked = f'COMP_WORDS=({line}); COMP_CWORD={len(words)}; _odradek; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        [bash, "-c", script("bash", commands.options(), commands.values()) + asked],
        capture_output=True,
        text=True,
        check=True,
    )
    assert offered == done.stdout.split(), done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_option_and_name_is_in_it(commands: Commands, shell: str) -> None:
    written = script(shell, commands.options(), commands.values())
    for name, long_options in commands.options().items():
        for word in (*name.split(), *(each.removeprefix("--") for each in long_options)):
            assert word in written
    for names in commands.values().values():
        assert " ".join(names) in written


def test_fish_offers_names_where_they_belong(commands: Commands) -> None:
    lines = script("fish", commands.options(), commands.values()).splitlines()
    [line] = [each for each in lines if each.endswith(f"-l story -x -a '{' '.join(stories())}'") and "serve" in each]
    assert line.startswith("complete -c odradek -n '__fish_seen_subcommand_from serve' -l story")
    assert f"complete -c odradek -n '__fish_seen_subcommand_from stories' -x -a '{' '.join(stories())}'" in lines


def test_another_shell_has_none() -> None:
    with pytest.raises(UsageError, match="There is no completion for tcsh: there is bash, zsh, fish"):
        script("tcsh", {}, {})
