"""Audits that are repeated: incidents that are new, known or acknowledged; exit codes, alerts, metrics, the board."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.commands.test_wrong_calls import called, exit_code
from tests.pipeline.planting import add, partition_batches, segment

from odradek.cli.all_commands import commands_for
from odradek.records.control import end_txn_marker
from odradek_pipeline.incidents.nightly import FILE, METRIC, identity, read_seen

Recorded = Callable[[str], Path]
BOARD = Path(__file__).parents[3] / "docs" / "grafana.json"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands write to the folder `audit` if they are told no other."""
    monkeypatch.chdir(tmp_path)


def audit(directory: Path, *more: str) -> tuple[int, str]:
    with redirect_stdout(io.StringIO()) as said:
        code = exit_code("audit", "logs", str(directory), "--master", "none", "--state", "state", *more)
    return code, said.getvalue()


def alerts() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path("audit/alerts.json").read_text())
    return found


def test_a_night_tells_only_what_is_new_and_an_acknowledged_incident_is_no_alert(recorded: Recorded) -> None:
    directory = recorded("hang")
    code, said = audit(directory, "--only-new")
    assert 1 == code
    (first,) = alerts()["incidents"]
    assert f"{first['id']} critical hanging-transaction: " in said
    assert (True, "hanging-transaction", "critical") == (first["is_new"], first["incident"], first["severity"])
    code, said = audit(directory, "--only-new")
    assert 0 == code
    assert "hanging-transaction:" not in said
    assert "1 more that are acknowledged or known" in said
    assert [] == alerts()["incidents"]
    code, _ = audit(directory)
    assert 1 == code, "without --only-new it counts for as long as it is there"
    assert [False] == [one["is_new"] for one in alerts()["incidents"]]
    with redirect_stdout(io.StringIO()) as said_of_ack:
        commands_for("audit").run(["audit", "ack", first["id"], "--why", "ticket 4711", "--state", "state"])
    assert f"{first['id']} is acknowledged: A transaction of producer" in said_of_ack.getvalue()
    code, _ = audit(directory)
    assert (0, []) == (code, alerts()["incidents"])
    assert 1 == alerts()["acknowledged"]
    assert "bad" == json.loads(Path("audit/summary.json").read_text())["verdict"], "the logs are what they are"
    assert 'acknowledged="true"} 1' in Path("audit/audit.prom").read_text()


def test_what_is_over_is_forgotten_and_new_when_it_comes_back(recorded: Recorded, tmp_path: Path) -> None:
    hang = recorded("hang")
    audit(hang)
    (name,) = read_seen(Path("state")).incidents
    commands_for("audit").run(["audit", "ack", name, "--why", "known", "--state", "state"])
    content = segment(hang, "orders-0").read_bytes()
    open_one = next(one for one in partition_batches(hang, "orders-0") if one.base_offset == 36)
    end = partition_batches(hang, "orders-0")[-1].last_offset + 1
    marker = end_txn_marker(
        producer_id=open_one.producer_id,
        producer_epoch=open_one.producer_epoch,
        commit=False,
        coordinator_epoch=-1,
        timestamp=open_one.max_timestamp + 1,
    )
    add(hang, "orders-0", end.to_bytes(8) + bytes(marker.view)[8:])  # an operator has aborted it
    audit(hang)
    assert name not in read_seen(Path("state")).incidents
    assert {} == read_seen(Path("state")).acknowledged
    segment(hang, "orders-0").write_bytes(content)
    code, _ = audit(hang, "--only-new")
    assert 1 == code
    assert [name] == [one["id"] for one in alerts()["incidents"]]


def test_exit_codes_by_severity(recorded: Recorded) -> None:
    directory = recorded("tv2")
    (directory / "orders-0" / "partition.metadata").write_text("version: 0\n")
    assert 1 == audit(directory)[0]
    assert 3 == audit(directory, "--by-severity")[0]
    assert ["warning"] == [one["severity"] for one in alerts()["incidents"]]
    code = exit_code("audit", "logs", str(recorded("hang")), "--master", "none", "--by-severity", "--out", "other")
    assert 1 == code


def test_json_is_all_that_is_printed(recorded: Recorded) -> None:
    code, said = audit(recorded("hang"), "--json")
    found = json.loads(said)
    assert (1, "bad", 1) == (code, found["verdict"], found["exit_code"])
    assert found == alerts()
    assert {"id", "what", "run", "since", "first_seen"} <= found["incidents"][0].keys()


def test_since_last_looks_only_at_what_came_since_but_forgets_nothing(recorded: Recorded) -> None:
    directory = recorded("hang")
    audit(directory)
    before = read_seen(Path("state"))
    code, _ = audit(directory, "--since-last")
    assert 1 == code
    after = read_seen(Path("state"))
    assert before.incidents.keys() == after.incidents.keys()
    assert before.clock_ms == after.clock_ms > 0


def test_the_name_of_an_incident_stays_as_its_log_grows() -> None:
    row: dict[str, object] = {
        "incident": "hanging-transaction",
        "topic": "a",
        "partition": 0,
        "offset": 7,
        "producer_id": 1,
    }
    more = row | {"producer_epoch": -1, "end_offset": 99, "path": "/elsewhere/a-0/1.log", "what": "…"}
    assert identity(row) == identity(more)
    others: list[dict[str, object]] = [{"offset": 8}, {"partition": 1}, {"producer_id": 2}, {"incident": "lost-tail"}]
    assert 5 == len({identity(row), *(identity(row | one) for one in others)})
    of_file = {"incident": "bad-index", "topic": "a", "partition": 0, "offset": -1, "path": "/x/a-0/0.index"}
    assert identity(of_file) != identity(of_file | {"path": "/x/a-0/1.index"})
    assert identity(of_file) == identity(of_file | {"path": "/y/a-0/0.index"})


def test_wrong_calls(recorded: Recorded, tmp_path: Path) -> None:
    directory = recorded("idle")
    logs = ["audit", "logs", "--master", "none", str(directory)]
    assert "name one that stays" in called(*logs, "--only-new")
    assert "name one that stays" in called(*logs, "--since-last")
    assert "leave one out" in called(*logs, "--state", "state", "--since-last", "--since", "1h")
    assert "names no incident" in called("audit", "ack", "nope", "--why", "x", "--state", "state")
    assert "No audit with this --state" in called("audit", "ack", "0123456789ab", "--why", "x", "--state", "state")
    audit(directory)
    assert "Say why" in called("audit", "ack", "0123456789ab", "--why", " ", "--state", "state")
    (tmp_path / "state" / FILE).write_text("{")
    assert "cannot be read" in called(*logs, "--state", "state")
    assert "is no address" in called(*logs, "--bootstrap", "nowhere:0")


def test_the_board_asks_for_metrics_that_there_are(recorded: Recorded) -> None:
    from odradek_pipeline.watch import show

    audit(recorded("hang"))
    here = set(re.findall(rf"(?m)^({METRIC}\w+)", Path("audit/audit.prom").read_text()))
    watched = set(re.findall(r"odradek_watch_\w+", Path(show.__file__).read_text()))
    board = json.loads(BOARD.read_text())
    asked = {
        name
        for panel in board["panels"]
        for target in panel.get("targets", [])
        for name in re.findall(r"odradek_\w+", target["expr"])
    }
    assert {one.removesuffix("_total") for one in asked} <= here | watched
    assert {one.partition("_")[2].partition("_")[0] for one in asked} == {"audit", "watch"}
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
