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

OWN = """
import sys, time
sys.path.insert(0, {folder!r})
import driver

class Own(driver.Driver):
    def begin(self, client):
        time.sleep(60)

    def commit(self, client):
        raise ValueError("no")

    def abort(self, client):
        return self.forgotten[client]

    def failure(self, client, error):
        if isinstance(error, ValueError):
            return driver.Failure("NO", "fatal", client)
        return driver.Failure(error.name, "unknown", error.no_such_field)

driver.run(Own())
"""


def answers(line: list[str], *requests: dict[str, object]) -> list[dict[str, object]]:
    """Its first line, and its answers."""
    text = "".join(f"{json.dumps({'id': n, 'client': 'p1', **request})}\n" for n, request in enumerate(requests))
    return heard(line, text)[0]


def heard(line: list[str], text: str) -> tuple[list[dict[str, object]], str]:
    """Its lines, and what it writes to standard error."""
    done = subprocess.run(line, input=text, capture_output=True, text=True, check=True, timeout=60)
    return [json.loads(each) for each in done.stdout.splitlines()], done.stderr


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


@pytest.fixture
def own(tmp_path: Path) -> list[str]:
    """The command of a driver in Python whose verbs go wrong."""
    program = tmp_path / "own.py"
    program.write_text(OWN.format(folder=str(FOLDER)))
    return [sys.executable, str(program)]


def test_a_call_that_never_ends_costs_its_request_alone(own: list[str]) -> None:
    _, late, failed = answers(own, {"verb": "begin", "timeout_ms": 50}, {"verb": "commit"})
    assert "TIMED_OUT" == late["error"]["name"]  # type: ignore[index]
    assert {"name": "NO", "class": "fatal", "message": "p1"} == failed["error"]


def test_an_error_of_the_driver_itself_leaves_its_traceback(own: list[str]) -> None:
    """It is told as one of the library: nobody can tell them apart. So its place is on standard error."""
    told, stderr = heard(own, '{"id": 0, "client": "p1", "verb": "commit"}\n')
    assert "NO" == told[-1]["error"]["name"]  # type: ignore[index]
    assert 'in commit\n    raise ValueError("no")\n' in stderr


def test_a_failure_that_fails_itself_is_an_answer(own: list[str]) -> None:
    told, stderr = heard(own, '{"id": 0, "client": "p1", "verb": "abort"}\n')
    said = "the driver's failure() raised AttributeError(\"'AttributeError' object has no attribute 'no_such_field'\")"
    assert {"name": "ERROR", "class": "unknown", "message": said} == told[-1]["error"]
    assert "in abort\n    return self.forgotten[client]\n" in stderr
    assert "in failure\n" in stderr


def test_every_family_has_a_driver_and_releases() -> None:
    assert families.BUILT_BY.keys() == families.FAMILIES.keys()
    assert all(set(each.without_kip_890) <= set(each.releases) for each in families.FAMILIES.values())
    assert all(each.releases for each in families.FAMILIES.values())


@pytest.mark.parametrize(
    "program",
    [
        each
        for language in ("go/*/*.go", "java/*.java", "node/*/*.mjs", "python/*.py", "rust/*/*.rs")
        for each in sorted(Path(families.__file__).parent.glob(language))
    ],
    ids=lambda each: f"{each.parent.name}/{each.name}",
)
def test_a_driver_is_a_page_of_code(program: Path) -> None:
    """What the drivers of a language have in common lies beside them."""
    assert len(program.read_text().splitlines()) <= 150
