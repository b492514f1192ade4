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
from odradek.faults.armed import Armed
from odradek.faults.model import Act, Match, Scripted, Step, When
from odradek.testing import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.client]

PAGE = (ROOT / "docs" / "testing.md").read_text()
FIRST, BEGINNING, *EXAMPLES = [code for language, code in FENCED.findall(PAGE) if language == "python"]
TEST = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)
HEADING = re.compile(r"^## (.*)$", re.MULTILINE)
STORY = re.compile(r"\(stories/([\w-]+)\.md\)")
RULES = (ROOT / "docs" / "rules.md").read_text()
WITHOUT_A_CHECKOUT = ("testing", "rules", "hub", "other-languages", "security")
OF_A_CHECKOUT = re.compile(
    r"(?:`|^ +)make [a-z]|\.venv\b|python -m (?:bench|tests)[\w.]*`(?! of the repository)", re.MULTILINE
)
REFUSED = "Connection refused"
OUTLIVES = """
from confluent_kafka import Producer
from odradek.testing import Cluster

errors = []
with Cluster(topics=["orders"]) as cluster:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "error_cb": errors.append, "log_level": LOG_LEVEL})
    producer.produce("orders", "one coffee")
    producer.flush(10)
while not any("REFUSED" in error.str() for error in errors):
    producer.poll(0.1)
"""
ENDS_FIRST = """
from confluent_kafka import Producer
from odradek.testing import Cluster

with Cluster(topics=["orders"]) as cluster, Producer({"bootstrap.servers": cluster.bootstrap}) as producer:
    producer.produce("orders", "one coffee")
    producer.flush(10)
"""


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


def played(*arguments: object, cwd: Path) -> str:
    """What pytest says of tests that pass."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    done = said(*command, cwd=cwd, env=environment(Path(sys.prefix)))
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout + done.stderr


def printed(script: str, tmp_path: Path) -> str:
    """What a script that succeeds prints to standard error."""
    (tmp_path / "script.py").write_text(script)
    done = said(sys.executable, "script.py", cwd=tmp_path, env=environment(Path(sys.prefix)))
    assert 0 == done.returncode, done.stderr
    return done.stderr


def test_examples_come_first_and_tables_last() -> None:
    headings = HEADING.findall(PAGE)
    assert ["A first test", "Examples"] == headings[:2]
    assert ["Arguments of Cluster", "Attributes and methods of Cluster"] == headings[-2:]


def test_every_example_is_one_test_that_asserts() -> None:
    assert [1] * 14 == [len(TEST.findall(example)) for example in EXAMPLES]
    assert all("assert " in example or "wait_for" in example for example in EXAMPLES)


def test_each_hard_case_links_its_story() -> None:
    (examples,) = re.findall(r"^## Examples\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
    _, *cases = re.split(r"^### ", examples, flags=re.MULTILINE)
    without = [case.partition("\n")[0] for case in cases if not STORY.search(case)]
    assert ["aiokafka and a web application (FastAPI, Starlette)"] == without
    assert all((ROOT / "docs" / "stories" / f"{story}.md").is_file() for story in STORY.findall(PAGE))


def test_the_first_test(tmp_path: Path) -> None:
    (tmp_path / "test_first.py").write_text(FIRST)
    output = played("-s", cwd=tmp_path)
    assert "1 passed" in output
    assert REFUSED not in output  # its producer ends before the cluster of the fixture


@pytest.mark.parametrize("name", [name for example in EXAMPLES for name in TEST.findall(example)])
def test_an_example(written: Path, name: str) -> None:
    assert re.search(r"^[12] passed", played(f"{written}::{name}", cwd=written.parent), re.MULTILINE)


@pytest.mark.parametrize(("log_level", "is_loud"), [(6, True), (2, False)])
def test_a_client_that_outlives_its_cluster(tmp_path: Path, log_level: int, is_loud: bool) -> None:
    script = OUTLIVES.replace("LOG_LEVEL", str(log_level)).replace("REFUSED", REFUSED)
    assert is_loud is (REFUSED in printed(script, tmp_path))


def test_a_client_that_ends_first_is_quiet(tmp_path: Path) -> None:
    assert "" == printed(ENDS_FIRST, tmp_path)


@pytest.mark.parametrize("page", WITHOUT_A_CHECKOUT)
def test_a_page_works_without_a_checkout(page: str) -> None:
    assert [] == [found[0] for found in OF_A_CHECKOUT.finditer((ROOT / "docs" / f"{page}.md").read_text())]


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
