"""What a shell offers after some words."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from odradek.all_commands import commands_for
from odradek.completion import SHELLS, script
from odradek.usage import UsageError


@pytest.fixture(scope="module")
def options() -> dict[str, list[str]]:
    return commands_for(None).options()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["se"], ["serve"]),
        (["ctl", "tra"], ["transactions"]),
        (["ctl", "make", "--tr"], ["--transaction-version"]),
        (["serve", "--adv"], ["--advertised-host", "--advertised-port"]),
        (["hub", "--url"], ["--url-file"]),
    ],
)
def test_bash_offers_what_may_come(options: dict[str, list[str]], words: list[str], offered: list[str]) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    line = " ".join(f'"{word}"' for word in ["odradek", *words])
    asked = f'COMP_WORDS=({line}); COMP_CWORD={len(words)}; _odradek; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run([bash, "-c", script("bash", options) + asked], capture_output=True, text=True, check=True)
    assert offered == done.stdout.split(), done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_and_option_is_in_it(options: dict[str, list[str]], shell: str) -> None:
    written = script(shell, options)
    for name, long_options in options.items():
        for word in (*name.split(), *(each.removeprefix("--") for each in long_options)):
            assert word in written


def test_another_shell_has_none(options: dict[str, list[str]]) -> None:
    with pytest.raises(UsageError, match="There is no completion for tcsh: there is bash, zsh, fish"):
        script("tcsh", options)
