"""The recipes of docs/other-languages.md for Testcontainers, each the test that it is.

They run against a stand-in for an engine, and for real where there is one with the image `odradek` (`docker build`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.clients.lacking import with_toolchains
from tests.clients.toolchain import need, node_modules, python_with
from tests.helpers.engine import StandIn
from tests.packaging.test_tour import FENCED

pytestmark = [pytest.mark.client, pytest.mark.slow]

ROOT = Path(__file__).parent.parent.parent
PINNED = Path(__file__).parent / "containers"
JAVA = ROOT / "helpers" / "java"
_, _, SECTION = (ROOT / "docs" / "other-languages.md").read_text().partition("## In a container\n")
RECIPES = {
    (re.search(r"class (\w+)", code) or [language, language])[1] if language == "java" else language: code
    for language, code in FENCED.findall(SECTION.partition("\n## ")[0])
}
TIMEOUT_S = 300


class Engine(NamedTuple):
    """What the recipes talk to."""

    env: dict[str, str]
    stand_in: StandIn | None


@pytest.fixture(params=["stand-in", "docker"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    if request.param == "docker":
        if not _has_docker():
            pytest.skip("there is no Docker engine here that has the image odradek")
        yield Engine({}, None)
        return
    with StandIn() as stand_in:
        yield Engine(stand_in.env, stand_in)


def _has_docker() -> bool:
    command = ["docker", "image", "inspect", "odradek"]
    return shutil.which("docker") is not None and 0 == subprocess.run(command, capture_output=True).returncode


def _python(code: str, folder: Path) -> list[str]:
    (folder / "test_recipe.py").write_text(code)
    pinned = [line for line in (PINNED / "requirements.txt").read_text().splitlines() if "==" in line]
    return [python_with(*pinned), "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_recipe.py"]


def _go(code: str, folder: Path) -> list[str]:
    need("go")
    shutil.copytree(PINNED / "go", folder, dirs_exist_ok=True)
    (folder / "recipe_test.go").write_text(code)
    return ["go", "test", "-count=1", "-v", "./..."]


def _js(code: str, folder: Path) -> list[str]:
    need("node")
    (folder / "node_modules").symlink_to(node_modules(PINNED / "node"))
    (folder / "recipe.test.mjs").write_text(code)
    return ["node", "--test", "--test-reporter=tap"]


def _java(code: str, folder: Path) -> list[str]:
    need("java", "mvn")
    shutil.copytree(JAVA, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("target", "test"))
    found = re.search(r"class (\w+)", code)
    assert found is not None
    test = folder / "src" / "test" / "java" / f"{found[1]}.java"
    test.parent.mkdir(parents=True)
    test.write_text(code)
    return ["mvn", "-B", "-q", "test"]


RUNS: dict[str, Callable[[str, Path], list[str]]] = {
    "python": _python,
    "go": _go,
    "js": _js,
    "OdradekContainerTest": _java,
    "GenericContainerTest": _java,
}


def _played(name: str, code: str, folder: Path, engine: Engine) -> subprocess.CompletedProcess[str]:
    with with_toolchains(name):
        command = RUNS[name](code, folder)
        return subprocess.run(
            command, cwd=folder, env={**os.environ, **engine.env}, capture_output=True, text=True, timeout=TIMEOUT_S
        )


def test_there_is_a_recipe_for_each_language() -> None:
    assert set(RUNS) == set(RECIPES)


@pytest.mark.parametrize("name", RUNS)
def test_a_recipe(name: str, engine: Engine, tmp_path: Path) -> None:
    done = _played(name, RECIPES[name], tmp_path, engine)
    assert 0 == done.returncode, done.stdout + done.stderr
    if engine.stand_in is not None:
        [container] = engine.stand_in.every
        assert "--control" in container.words
        assert container.connections.pop("9644/tcp") > 0
        assert sum(container.connections.values()) > 0, container.connections
        assert not container.runs, "the recipe leaves its container behind"


def test_a_rule_that_was_not_hit_fails_the_test_of_an_odradek_container(tmp_path: Path) -> None:
    code = RECIPES["OdradekContainerTest"]
    wrong = code.replace('"hits", 1', '"hits", 0')
    assert wrong != code
    with StandIn() as stand_in:
        done = _played("OdradekContainerTest", wrong, tmp_path, Engine(stand_in.env, stand_in))
    assert 0 != done.returncode
    assert "expects no hit and had 1 hit" in done.stdout + done.stderr


def test_a_client_is_lost_that_is_not_told_the_mapped_port(tmp_path: Path) -> None:
    """What the stand-in is worth: the same recipe without its call of the hub fails."""
    code = RECIPES["python"]
    wrong = re.sub(r"^ +urlopen\(.*\n", "", code, flags=re.MULTILINE).replace("flush(30)", "flush(3)")
    assert wrong != code
    with StandIn() as stand_in:
        done = _played("python", wrong, tmp_path, Engine(stand_in.env, stand_in))
    assert 1 == done.returncode, done.stdout + done.stderr
    assert "container.invalid:" in done.stdout + done.stderr


def test_the_plain_helper_does_not_bring_testcontainers() -> None:
    dependencies = re.findall(r"<dependency>.*?</dependency>", (JAVA / "pom.xml").read_text(), re.DOTALL)
    [found] = [each for each in dependencies if "org.testcontainers" in each]
    assert "<optional>true</optional>" in found
    users = [path.name for path in JAVA.rglob("src/main/**/*.java") if "org.testcontainers" in path.read_text()]
    assert ["OdradekContainer.java"] == users
