"""Every dialect that comes with Odradek has a README with tests that exist, and decides every difference."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.releases.dialects.differences import listed, shown
from odradek.releases.dialects.load import FOLDER, names, read

ROWS = {f"B{number}" for number in range(1, 36)}
TESTS = Path(__file__).parent


def readme(name: str) -> str:
    return (read(name).folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", names())
def test_tests_exist(name: str) -> None:
    path = TESTS / f"test_{name.replace('-', '_')}.py"
    written = set(re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8")))
    wanted = set(re.findall(r"`(test_\w+)`", readme(name)))
    assert set() == wanted - written
    assert set() == written - wanted, "a test that no sentence of the README names"


@pytest.mark.parametrize("name", names())
def test_every_difference_is_decided(name: str) -> None:
    rows = [line.split("|")[1] for line in readme(name).splitlines() if line.startswith("| B")]
    assert ROWS == {each.strip() for row in rows for each in row.split(",")}


@pytest.mark.parametrize("name", names())
def test_the_list_and_the_page_name_it(name: str) -> None:
    page = (TESTS.parents[1] / "docs" / "dialects.md").read_text(encoding="utf-8")
    assert any(line.startswith(f"{name} ") for line in listed())
    assert f"`{name}`" in page
    assert shown(name)[0].startswith(f"{name}, over ")


CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTS = re.compile(r"^It prints `(.*?)`", re.MULTILINE)
SERVES = re.compile(r"^    odradek serve (.*)$", re.MULTILINE)


@pytest.mark.parametrize("name", [name for name in names() if "```" in readme(name)])
def test_the_example_prints_what_the_page_says(name: str, tmp_path: Path) -> None:
    [code], [prints] = CODE.findall(readme(name)), PRINTS.findall(readme(name))
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (0, f"{prints}\n") == (done.returncode, done.stdout), done.stderr


def test_the_drafts_have_an_example() -> None:
    assert {"kip-609-draft", "kip-939", "kip-994", "kip-1289"} <= {
        name for name in names() if CODE.search(readme(name))
    }


@pytest.mark.parametrize(
    ("name", "given"), [(name, given) for name in names() for given in SERVES.findall(readme(name))]
)
def test_the_command_serves(name: str, given: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "odradek", "serve", "--port", "0", "--until-stdin-ends", *given.split()]
    done = subprocess.run(command, cwd=tmp_path, input="", capture_output=True, text=True, timeout=120)
    assert 0 == done.returncode, done.stderr
    assert done.stdout.startswith("odradek ready bootstrap=")
    assert f"--dialect {name} " in f"{given} "


def test_folders_are_named_as_their_dialects() -> None:
    assert names() == [read(str(path.parent)).release.name for path in sorted(FOLDER.glob("*/dialect.toml"))]
