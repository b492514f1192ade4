"""The skeletons of drivers: as they are, they keep to the protocol and can do nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.clients.lacking import with_toolchains
from tests.clients.toolchain import JAVA, jars, java_classes, need, node_itself, sh
from tests.conform.drivers import families

from odradek.conform.protocol import VERBS
from odradek.conform.skeletons import FOLDER, LANGUAGES, skeleton

SLEEPER = """
import sys, time
sys.path.insert(0, {folder!r})
import driver

class Sleeper(driver.Driver):
    def begin(self, client):
        time.sleep(60)

    def commit(self, client):
        raise ValueError("no")

driver.run(Sleeper())
"""


def answers(line: list[str], *requests: dict[str, object]) -> list[dict[str, object]]:
    """Its first line, and its answers."""
    text = "".join(f"{json.dumps({'id': n, 'client': 'p1', **request})}\n" for n, request in enumerate(requests))
    done = subprocess.run(line, input=text, capture_output=True, text=True, check=True, timeout=60)
    return [json.loads(each) for each in done.stdout.splitlines()]


def java(folder: Path) -> list[str]:
    libraries = jars(Path(families.__file__).parent / "java" / "pom.xml")
    return [*JAVA, "-cp", java_classes("conform-skeleton", [FOLDER / "Driver.java"], libraries), "Driver"]


def go(folder: Path) -> list[str]:
    need("go")
    shutil.copy(FOLDER / "driver.go", folder)
    (folder / "go.mod").write_text("module skeleton\n\ngo 1.23\n")
    sh("go", "build", "-o", folder / "driver", ".", cwd=folder)
    return [str(folder / "driver")]


def node(folder: Path) -> list[str]:
    return [str(node_itself()), str(FOLDER / "driver.mjs")]


def python(folder: Path) -> list[str]:
    return [sys.executable, str(FOLDER / "driver.py")]


# Rust's needs a crate, and is built with the drivers that are made from it.
COMMANDS: dict[str, Callable[[Path], list[str]]] = {"python": python, "go": go, "java": java, "node": node}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_skeleton_names_every_verb(language: str) -> None:
    text = skeleton(language)
    assert all(f'"{verb}"' in text for verb in VERBS)


@pytest.mark.parametrize(
    "language",
    [
        "python",
        *(
            pytest.param(each, marks=[pytest.mark.client, pytest.mark.slow, pytest.mark.builds])
            for each in ("go", "java", "node")
        ),
    ],
)
def test_a_skeleton_speaks_the_protocol_and_can_do_nothing(language: str, tmp_path: Path) -> None:
    with with_toolchains(f"a skeleton in {language}"):
        line = COMMANDS[language](tmp_path)
    given: dict[str, object] = {
        "role": "producer",
        "bootstrap": "",
        "topic": "",
        "value": "",
        "group": "",
        "offsets": [],
        "topics": [],
    }
    hello, *told = answers(line, *({"verb": verb, **given} for verb in VERBS), {"verb": "dance"})
    assert list(VERBS) == hello["hello"]["verbs"]  # type: ignore[index]
    assert [*range(len(VERBS) + 1)] == [each["id"] for each in told]
    assert all({"id", "unsupported"} == each.keys() for each in told)


def test_a_call_that_never_ends_costs_its_request_alone(tmp_path: Path) -> None:
    program = tmp_path / "sleeper.py"
    program.write_text(SLEEPER.format(folder=str(FOLDER)))
    _, late, failed = answers([sys.executable, str(program)], {"verb": "begin", "timeout_ms": 50}, {"verb": "commit"})
    assert "TIMED_OUT" == late["error"]["name"]  # type: ignore[index]
    assert {"name": "ValueError", "class": "unknown", "message": "no"} == failed["error"]


def test_the_command_prints_a_skeleton_and_says_which_there_are() -> None:
    line = [sys.executable, "-m", "odradek", "conform", "--skeleton"]
    printed = subprocess.run([*line, "go"], capture_output=True, text=True, check=False)
    assert skeleton("go") == printed.stdout
    wrong = subprocess.run([*line, "cobol"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert all(language in wrong.stderr for language in ("cobol", *LANGUAGES))


def test_every_family_has_a_driver_and_releases() -> None:
    assert families.BUILT_BY.keys() == families.FAMILIES.keys()
    assert all(set(each.without_kip_890) <= set(each.releases) for each in families.FAMILIES.values())
    assert all(each.releases for each in families.FAMILIES.values())
