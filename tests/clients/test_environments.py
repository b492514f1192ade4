"""Which Python and which packages an old release of a Python client gets."""

import sys
from pathlib import Path

import pytest
from tests.clients import environments
from tests.clients.environments import python_for
from tests.clients.toolchain import MissingToolchain, interpreter

OLDER = (sys.version_info[0], sys.version_info[1] - 1)
NAME = "python{}.{}".format(*OLDER)


def on_path(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / NAME
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """What the next environment is made of."""
    found: dict[str, object] = {}

    def python_with(*requirements: str, latest: tuple[int, int] | None) -> str:
        found.update(requirements=requirements, latest=latest)
        return "made"

    monkeypatch.setattr(environments, "python_with", python_with)
    return found


def test_without_a_version_the_running_python_is_used(asked: dict[str, object]) -> None:
    assert sys.executable == python_for("aiokafka", None)
    assert {} == asked


@pytest.mark.parametrize(
    ("family", "version", "latest"),
    [
        ("confluent-kafka", "1.9.2", (3, 10)),
        ("confluent-kafka", "2.3.0", (3, 12)),
        ("confluent-kafka", "2.16.1", None),
        ("kafka-python", "2.0.2", (3, 11)),
        ("kafka-python", "2.2.21", None),
        ("aiokafka", "0.8.1", (3, 11)),
        ("aiokafka", "0.14.0", None),
    ],
)
def test_a_release_gets_a_python_that_it_has_wheels_for(
    asked: dict[str, object], family: str, version: str, latest: tuple[int, int] | None
) -> None:
    assert "made" == python_for(family, version)
    assert latest == asked["latest"]


def test_every_package_is_pinned_and_the_client_comes_first(asked: dict[str, object]) -> None:
    python_for("kafka-python", "2.0.2")
    requirements = asked["requirements"]
    assert isinstance(requirements, tuple)
    assert "kafka-python==2.0.2" == requirements[0]
    assert all("==" in requirement for requirement in requirements)


@pytest.mark.parametrize(("version", "beside"), [("0.8.1", True), ("0.9.0", False), ("0.14.0", False)])
def test_aiokafka_needs_kafka_python_before_0_9(asked: dict[str, object], version: str, beside: bool) -> None:
    python_for("aiokafka", version)
    requirements = asked["requirements"]
    assert isinstance(requirements, tuple)
    assert beside == ("kafka-python==2.0.2" in requirements)


def test_the_running_python_serves_where_it_is_old_enough() -> None:
    assert sys.executable == interpreter("some 1.0", None)
    assert sys.executable == interpreter("some 1.0", sys.version_info[:2])


def test_an_older_python_is_taken_from_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path(tmp_path, monkeypatch, "echo /somewhere/python")
    assert "/somewhere/python" == interpreter("some 1.0", OLDER)


@pytest.mark.parametrize("stand_in", [True, False])
def test_without_an_older_python_the_release_is_lacking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand_in: bool
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if stand_in:
        on_path(tmp_path, monkeypatch, "exit 127")
    with pytest.raises(MissingToolchain, match=f"some 1.0 needs Python .* or older, and no {NAME} that runs"):
        interpreter("some 1.0", OLDER)
