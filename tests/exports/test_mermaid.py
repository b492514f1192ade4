"""Diagrams for Mermaid, parsed by Mermaid."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.clients.lacking import with_toolchains
from tests.clients.toolchain import MissingToolchain, node_modules
from tests.exports.histories import hostile_texts, named, two_transactions

from odradek.show.mermaid import mermaid
from odradek.show.transaction import of_transaction

pytestmark = pytest.mark.builds

HERE = Path(__file__).parent / "mermaid"
NODE = Path(__file__).parents[1] / "clients" / "node"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command line of the parser, which has its packages beside it."""
    folder = tmp_path_factory.mktemp("mermaid")
    with with_toolchains("Mermaid"):
        node = node_modules(NODE) / ".bin" / "node"
        if not node.exists():
            raise MissingToolchain("no Node for this machine")
        (folder / "node_modules").symlink_to(node_modules(HERE))
    shutil.copy(HERE / "parse.mjs", folder)
    return [str(node), str(folder / "parse.mjs")]


def parsed(program: list[str], diagrams: list[str]) -> list[dict[str, Any]]:
    done = subprocess.run(program, input=json.dumps(diagrams), capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    understood: list[dict[str, Any]] = json.loads(done.stdout)
    return understood


def test_a_transaction_is_understood_as_it_was_told(program: list[str]) -> None:
    history = of_transaction(two_transactions(), "y")
    [found] = parsed(program, [mermaid(history)])
    assert "error" not in found
    assert [f"L{index}" for index in range(len(history.lanes))] == [name for name, _ in found["actors"]]
    assert [text for _, text in found["actors"]] == [f"{lane.name}, {lane.about}" for lane in history.lanes]
    ends = [(f"L{step.source}", f"L{step.target}", step.text) for step in history.steps]
    assert ends == [(source, target, text) for source, target, text, _ in found["messages"]]


def test_no_name_is_more_than_a_text(program: list[str]) -> None:
    texts = hostile_texts()
    for text, found in zip(texts, parsed(program, [mermaid(named(text)) for text in texts]), strict=True):
        assert "error" not in found, (text, found)
        assert [name for name, _ in found["actors"]] == ["L0", "L1"], text
        assert [message[:2] for message in found["messages"]] == [["L0", "L1"], ["L1", "L1"], ["L1", "L0"]], text
        told = {message[2] for message in found["messages"]}
        assert len(told) == 1, text
        kept = [letter for letter in text if letter.isalnum()]
        assert kept == [letter for letter in told.pop() if letter.isalnum()], text


def test_a_broken_diagram_is_refused(program: list[str]) -> None:
    [found] = parsed(program, ["sequenceDiagram\n    L0 to L1"])
    assert "Parse error" in found["error"]
