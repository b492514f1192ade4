"""The examples of docs/testing.md, each run as the test that it is."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from tests.packaging.processes import environment
from tests.packaging.test_tour import FENCED
from tests.packaging.tools import ROOT, said

from odradek import testing
from odradek.testing import Cluster, Fault

pytestmark = [pytest.mark.slow, pytest.mark.client]

PAGE = (ROOT / "docs" / "testing.md").read_text()
BEGINNING, *EXAMPLES = [code for language, code in FENCED.findall(PAGE) if language == "python"]
TEST = re.compile(r"^def (test_\w+)", re.MULTILINE)
LISTED = {name for cell in re.findall(r"^\| (.*?) \|", PAGE, re.MULTILINE) for name in re.findall(r"`(\w+)", cell)}


def public(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page as a test module."""
    path = tmp_path_factory.mktemp("page") / "test_page.py"
    path.write_text("\n\n".join([BEGINNING, *EXAMPLES]))
    return path


def test_every_example_is_one_test_that_asserts() -> None:
    assert [1] * 9 == [len(TEST.findall(example)) for example in EXAMPLES]
    assert all("assert " in example or "wait_for" in example for example in EXAMPLES)


@pytest.mark.parametrize("name", [name for example in EXAMPLES for name in TEST.findall(example)])
def test_an_example(written: Path, name: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{written}::{name}"]
    done = said(*command, cwd=written.parent, env=environment(Path(sys.prefix)))
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_the_tables_list_everything_public() -> None:
    arguments = set(Cluster.__init__.__annotations__) - {"return"}
    fields = set(Fault.__struct_fields__)
    assert set() == (arguments | fields | public(Cluster)) - LISTED
    assert all(name in PAGE for name in testing.__all__)
