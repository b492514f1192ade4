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
from odradek.node.rules.armed import Armed
from odradek.node.rules.model import Act, Match, Scripted, Step, When
from odradek.testing import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.client]

PAGE = (ROOT / "docs" / "testing.md").read_text()
BEGINNING, *EXAMPLES = [code for language, code in FENCED.findall(PAGE) if language == "python"]
TEST = re.compile(r"^def (test_\w+)", re.MULTILINE)
RULES = (ROOT / "docs" / "rules.md").read_text()


def listed(page: str) -> set[str]:
    """What stands in the first column of the tables of a page."""
    return {name for cell in re.findall(r"^\| (.*?) \|", page, re.MULTILINE) for name in re.findall(r"`(\w+)", cell)}


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
    assert set() == (arguments | public(Cluster)) - listed(PAGE)
    assert all(name in PAGE for name in testing.__all__)


def test_the_page_of_rules_lists_every_field() -> None:
    fields = [field for kind in (Match, When, Act, Step) for field in kind.__struct_encode_fields__]
    assert set() == set(fields) - listed(RULES)
    assert {"matches"} == set(Scripted.__struct_fields__) & listed(PAGE) - {"reply"}


def test_what_an_armed_rule_counts_is_on_the_page() -> None:
    assert all(f"`{name}`" in PAGE for name in ("hits", "matched", "held", "requests", "near_misses"))
    assert "report" in public(Armed)
