"""The plan, the expectations and the page of the compatibility matrix; `make matrix` plays it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.clients.driver import FAMILIES
from tests.clients.matrix import page
from tests.clients.matrix.__main__ import is_expected
from tests.clients.matrix.expectations import Expectations
from tests.clients.matrix.plan import BROKERS, CLIENTS, Cell, core, everything
from tests.clients.matrix.playing import Outcome
from tests.clients.matrix.results import Entry, Results

LEVEL_2 = next(broker for broker in BROKERS if broker.name == "level 2")
JAVA = next(client for client in CLIENTS if client.family == "java" and client.newest)
KAFKA_GO = next(client for client in CLIENTS if client.family == "kafka-go")
PLATFORMATIC = next(client for client in CLIENTS if client.family == "platformatic" and client.newest)
COMMITS = Cell(JAVA, LEVEL_2, "transactions")
PASSED = Outcome("passed", library="kafka-clients 4.4.0", seconds=1.25, spoken={"END_TXN": [5], "PRODUCE": [12, 13]})


@pytest.fixture
def expectations() -> Expectations:
    return Expectations()


def test_every_family_is_played_and_every_client_has_a_program() -> None:
    assert set(FAMILIES) == {client.family for client in CLIENTS}
    assert {client.family for client in CLIENTS} == {client.family for client in CLIENTS if client.newest}


def test_the_smaller_set_is_a_part_and_holds_every_family_and_every_broker() -> None:
    cells = list(core())
    assert set(cells) < set(everything())
    assert set(FAMILIES) == {cell.client.family for cell in cells}
    assert set(BROKERS) == {cell.broker for cell in cells}


def test_who_is_asked_who_they_are_is_the_newest_of_each_family() -> None:
    cells = [cell for cell in everything() if cell.broker.secured]
    assert {client.family for client in CLIENTS} == {cell.client.family for cell in cells}
    assert all(cell.client.newest for cell in cells)
    # The set of every change gets few of them, so that it takes no minute more.
    assert {"transactions"} == {cell.scenario for cell in core() if cell.broker.secured}


def test_every_expectation_is_about_some_cell(expectations: Expectations) -> None:
    cells = list(everything())
    for entry in (*expectations.lacking, *expectations.failures):
        assert any(entry.covers(cell) for cell in cells), entry


def test_what_is_expected(expectations: Expectations, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    cannot = Cell(KAFKA_GO, LEVEL_2, "zombie")
    elsewhere_too = Cell(PLATFORMATIC, BROKERS[0], "transactions")
    assert is_expected(COMMITS, PASSED, expectations)
    assert not is_expected(COMMITS, Outcome("failed"), expectations)
    assert not is_expected(COMMITS, Outcome("lacking"), expectations)
    assert is_expected(cannot, Outcome("lacking"), expectations)
    assert not is_expected(cannot, PASSED, expectations), "it has learnt it: the expectation is out of date"
    assert is_expected(elsewhere_too, Outcome("failed"), expectations)
    assert is_expected(COMMITS, Outcome("missing"), expectations)
    monkeypatch.setenv("CI", "true")
    assert not is_expected(COMMITS, Outcome("missing"), expectations)


def test_results_are_kept_until_the_cell_is_played_again(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    first = Results(file)
    first.put(COMMITS, Entry(Outcome("failed", error="no"), expected=False))
    first.put(Cell(KAFKA_GO, LEVEL_2, "group"), Entry(PASSED, expected=True))
    first.write()
    second = Results(file)
    second.put(COMMITS, Entry(PASSED, expected=True))
    second.write()
    rows = [(cell.key, entry.outcome.result) for cell, entry in Results(file).rows()]
    assert [(COMMITS.key, "passed"), (("kafka-go", KAFKA_GO.version, "level 2", "group"), "passed")] == rows


def test_the_page_says_what_passed_what_failed_and_what_was_spoken(tmp_path: Path, expectations: Expectations) -> None:
    results, file = Results(tmp_path / "none.json"), tmp_path / "page.md"
    results.put(COMMITS, Entry(PASSED, expected=True))
    results.put(Cell(JAVA, LEVEL_2, "zombie"), Entry(Outcome("failed", error="two | bars"), expected=False))
    results.put(Cell(KAFKA_GO, LEVEL_2, "zombie"), Entry(Outcome("lacking"), expected=True))
    page.write(results, expectations, file)
    lines = file.read_text().splitlines()
    assert f"| java | {JAVA.version} | **version 2** | – | 12, 13 | – | – | – | 5 | – |" in lines
    assert "| client | version | transactions | zombie |" in lines
    assert f"| java | {JAVA.version} | ✓ 1.2 | **✗** |" in lines
    assert f"| kafka-go | {KAFKA_GO.version} |  | – |" in lines
    assert rf"| java {JAVA.version}, level 2, zombie | two \| bars |" in lines


def test_the_published_page_is_whole_and_says_what_the_results_say(tmp_path: Path, expectations: Expectations) -> None:
    published, file = Results(), tmp_path / "page.md"
    page.write(published, expectations, file)
    assert page.FILE.read_text() == file.read_text()
    rows = list(published.rows())
    assert [cell.key for cell in everything()] == [cell.key for cell, _ in rows]
    assert [] == [str(cell) for cell, entry in rows if not entry.expected]
