"""`odradek ctl`: what people type, what they read, and what scripts get."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import pytest
from msgspec import convert
from tests.hub.helpers import Till, made

from odradek.cli.commands import Commands
from odradek.cli.usage import Unmet, UsageError
from odradek.control.client import HubClient
from odradek.control.ctl import add_commands
from odradek.control.ctl.condition import WAITED_FOR, condition_of
from odradek.control.ctl.given import duration_ms
from odradek.control.ctl.tables import table
from odradek.control.messages.events import WaitBody
from odradek.control.stories import read_story

Ctl = Callable[..., str]


@pytest.fixture
def ctl(hub: HubClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ctl:
    """Runs a command line against the hub; what it prints."""
    monkeypatch.setenv("ODRADEK_HUB", hub.url)
    monkeypatch.delenv("ODRADEK_CLUSTER", raising=False)
    commands = Commands("odradek", "", {"ctl": "Drive."})
    add_commands(commands)

    def run(*words: str) -> str:
        capsys.readouterr()
        commands.run(["ctl", *words])
        return capsys.readouterr().out

    return run


def test_a_table_has_its_columns_under_one_another() -> None:
    rows = [
        {"name": "late", "hits": 2, "unmet": None, "at": [{"topic": "t", "partition": 0}]},
        {"name": "x", "hits": 10, "unmet": "none", "at": []},
    ]
    assert [
        "NAME  HITS  UNMET  AT",
        "late     2  -      t-0",
        "x       10  none   -",
    ] == table(("name", "hits", "unmet", "at"), rows)
    assert ["NAME"] == table(("name",), [])


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("500ms", 500), ("90s", 90_000), ("1h30m", 5_400_000), ("7d", 604_800_000)]
)
def test_times(text: str, milliseconds: int) -> None:
    assert milliseconds == duration_ms(text)


@pytest.mark.parametrize("text", ["", "7", "d", "7 d", "1w", "-1s"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(UsageError, match="A time is like"):
        duration_ms(text)


@pytest.mark.slow
def test_a_session(ctl: Ctl, hub: HubClient, tmp_path: Path) -> None:
    made_cluster = json.loads(ctl("make", "--topic", "t:2", "--set", "log.retention.ms=1000", "--id", "mine", "--json"))
    assert "mine" == made_cluster["id"]
    assert re.search(r"^mine +[\d.:]+ +none$", ctl("clusters"), re.MULTILINE)  # its lease

    plan = tmp_path / "plan.yaml"
    plan.write_text("- {name: markers, match: {api: WRITE_TXN_MARKERS}, act: {hold: true}, expect: {hits: 1}}\n")
    assert "markers" in ctl("arm", str(plan))
    with pytest.raises(Unmet, match="Rule markers expects 1 hit and had 0 hits"):
        ctl("verify")
    till = Till(made_cluster["bootstrap"])
    assert (0, 0, 0) == (till.add(), till.send(), till.end())
    ctl("wait", '{"rule": {"name": "markers", "held": 1}}')
    assert "till-1" in ctl("transactions")
    assert "t-0" in ctl("transactions")
    state = ctl("show")
    for part in (
        "cluster mine",
        "features: ",
        "brokers\n",
        "partitions\n",
        "transactions\n",
        "rules\n",
        "PrepareCommit",
    ):
        assert part in state
    assert "1" in ctl("release", "markers")
    ctl("wait", '{"transaction": {"id": "till-1", "state": "CompleteCommit"}}', "--timeout", "5s")
    assert "" == ctl("verify")
    assert "markers" in ctl("disarm", "markers")
    assert "32766" in ctl("epoch", "till-1", "32766")
    ctl("feature", "transaction.version", "0")
    ctl("config", "retention.ms=5000", "--topic", "t")
    ctl("config", "retention.ms=", "--topic", "t")
    assert re.search("7 days|6 days, 23:59", ctl("time", "--freeze", "--advance", "7d"))  # as long as it takes
    assert "stands still" not in ctl("time", "--resume")
    assert "paused" in ctl("pause", "1")
    assert "running" in ctl("resume", "1")
    assert "stopped" in ctl("stop", "1")
    assert "running" in ctl("start", "1")
    assert "1" in ctl("move-leader", "t", "0", "--to", "1")
    assert "1" in ctl("move-leader", "t", "0")
    assert "1" in ctl("move-coordinator", "group", "g", "--to", "1")
    ctl("disconnect")
    till.close()
    kinds = [json.loads(line)["kind"] for line in ctl("events", "--kind", "init_producer_id").splitlines()]
    assert ["init_producer_id"] == kinds
    for listed in ("rules", "groups", "parked", "partitions", "brokers"):
        assert ctl(listed)
        assert isinstance(json.loads(ctl(listed, "--json")), list)
    assert "mine" in ctl("reset")
    ctl("remove")
    assert [] == hub.get("clusters")


def test_what_all_commands_share_may_stand_before_them(ctl: Ctl, hub: HubClient) -> None:
    made_cluster = json.loads(ctl("--json", "make", "--id", "mine"))
    assert "mine" == made_cluster["id"]
    made(hub)
    assert [1] == [each["id"] for each in json.loads(ctl("--cluster", "mine", "--json", "brokers"))]
    assert "mine" in ctl(f"--hub={hub.url}", "show", "--cluster", "mine")
    assert "mine" in ctl("--cluster", "none", "show", "--cluster", "mine")  # the nearer one is meant
    with pytest.raises(UsageError, match="Behind --json there is no command: one of clusters, make, "):
        ctl("--json")
    with pytest.raises(UsageError, match="There is no command mak: "):
        ctl("--json", "mak")
    with pytest.raises(UsageError, match=r"There is no option --json \(see odradek ctl disconnect --help\)"):
        ctl("--json", "disconnect")
    with pytest.raises(UsageError, match="The option --topic goes behind the command"):
        ctl("--topic", "t", "make")


@pytest.mark.parametrize(
    ("words", "body"),
    [
        ("transaction till-1 CompleteCommit", {"transaction": {"id": "till-1", "state": "CompleteCommit"}}),
        ("rule late", {"rule": {"name": "late"}}),
        ("rule late held 1", {"rule": {"name": "late", "held": 1}}),
        ("rule late hits 2 held 1", {"rule": {"name": "late", "hits": 2, "held": 1}}),
        ("partition a-b-2", {"partition": {"topic": "a-b", "partition": 2}}),
        (
            "partition orders-2 last_stable_offset 3 high_watermark 4",
            {"partition": {"topic": "orders", "partition": 2, "last_stable_offset": 3, "high_watermark": 4}},
        ),
        ("group kitchen Stable", {"group": {"id": "kitchen", "state": "Stable"}}),
        ("group kitchen Stable members 2", {"group": {"id": "kitchen", "state": "Stable", "members": 2}}),
        ("group kitchen members 0", {"group": {"id": "kitchen", "members": 0}}),
    ],
)
def test_a_condition_in_words(words: str, body: dict[str, object]) -> None:
    assert body == condition_of(words.split())
    convert(body, WaitBody)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("transction till-1 Empty", "There is no wait for transction: did you mean transaction?"),
        ("x", "There is no wait for x: there is transaction, rule, partition, group."),
        ("rule", "Which rule? Such as: wait rule late held 1."),
        ("transaction till-1", "In which state is transaction till-1 to be? Such as: wait transaction till-1 Com"),
        ("transaction till-1 Empty 3", "A transaction has no 3 to wait for: its state says it all."),
        ("rule late hit 1", "A rule has no hit to wait for: did you mean hits?"),
        ("rule late held", "held is a whole number, not nothing: held N."),
        ("rule late held many", "held is a whole number, not many: held N."),
        ("rule late held -1", "held is a whole number, not -1: held N."),
        ("rule late held 1 held 2", "held is given twice."),
        ("partition orders", "A partition is TOPIC-NUMBER, such as orders-2, not orders."),
        ("partition orders-2 lso 3", "A partition has no lso to wait for: there is last_stable_offset, high_waterm"),
        ("group kitchen Stable member 2", "A group has no member to wait for: did you mean members?"),
    ],
)
def test_words_that_are_no_condition(words: str, sentence: str) -> None:
    with pytest.raises(UsageError) as wrong:
        condition_of(words.split())
    assert str(wrong.value).startswith(sentence)


def test_every_example_is_a_condition() -> None:
    for kind, waited in WAITED_FOR.items():
        convert(condition_of([kind, *waited.example.split()]), WaitBody)


def test_a_wait_in_words(ctl: Ctl, hub: HubClient) -> None:
    Till(made(hub)[1]).close()
    assert "" == ctl("wait", "transaction", "till-1", "Empty", "--timeout", "5s")
    [found] = json.loads(ctl("--json", "wait", "transaction", "till-1", "Empty"))["found"]
    assert "till-1" == found["transactional_id"]
    with pytest.raises(UsageError, match=r"There is no state CompletCommit of a transaction: did you mean CompleteC"):
        ctl("wait", "transaction", "till-1", "CompletCommit")
    with pytest.raises(UsageError, match="After 0 ms: no coordinator knows group kitchen"):
        ctl("wait", "group", "kitchen", "Stable", "members", "2", "--timeout", "0ms")


def test_a_cluster_may_be_of_a_story(ctl: Ctl, hub: HubClient) -> None:
    ctl("make", "--story", "epoch-overflow")
    told = {rule.name for rule in read_story("epoch-overflow").rules}
    assert told == {each["rule"]["name"] for each in json.loads(ctl("rules", "--json"))}


def test_the_plan_to_begin_with(ctl: Ctl, hub: HubClient, tmp_path: Path) -> None:
    """Each of its rules does what its comment says."""
    plan = tmp_path / "plan.yaml"
    plan.write_text(ctl("plan"))
    bootstrap = json.loads(ctl("make", "--topic", "t", "--json"))["bootstrap"]
    names = [each["name"] for each in json.loads(ctl("arm", str(plan), "--json"))]
    assert ["slow-produce", "lost-answer", "markers"] == names
    till = Till(bootstrap)
    began = monotonic()
    assert (0, 0) == (till.add(), till.send())
    assert monotonic() - began >= 0.2
    with pytest.raises(ConnectionError, match="closed"):
        till.end()
    till.close()
    ctl("wait", "rule", "markers", "held", "1", "--timeout", "5s")
    assert "PrepareCommit" in ctl("transactions")
    ctl("release", "markers")
    ctl("wait", "transaction", "till-1", "CompleteCommit", "--timeout", "5s")
    assert [1, 1, 1] == [each["hits"] for each in json.loads(ctl("rules", "--json"))]
    assert "" == ctl("verify")


@pytest.mark.parametrize(("options", "leaders"), [((), []), (("--cleanly",), [1])])
def test_a_broker_may_be_stopped_cleanly(
    ctl: Ctl, hub: HubClient, options: tuple[str, ...], leaders: list[int]
) -> None:
    made(hub, brokers=2, topics=["t:1:2"], config={"min.insync.replicas": 2})
    assert "stopped" in ctl("stop", "1", *options)
    ctl("stop", "2")
    ctl("start", "1")
    assert leaders == [each["leader"] for each in json.loads(ctl("partitions", "--json"))]


def test_a_crash_may_be_noticed_later(ctl: Ctl, hub: HubClient) -> None:
    cluster, _ = made(hub, brokers=2)
    ctl("time", "--freeze")
    ctl("stop", "2", "--fence-after", "9000")
    assert not hub.get("clusters", cluster, "brokers")[1]["fenced"]
    ctl("time", "--advance", "9s")
    assert hub.get("clusters", cluster, "brokers")[1]["fenced"]


@pytest.mark.slow
def test_why_something_is_stuck(ctl: Ctl, hub: HubClient) -> None:
    cluster, bootstrap = made(hub, topics=["t"])
    assert "Nothing is stuck: no rule keeps a request" in ctl("why")
    assert [] == json.loads(ctl("why", "--json"))["events"]
    hub.post("clusters", cluster, "rules", body={"name": "markers", "match": {"api": "WRITE_TXN_MARKERS"}, "act": HOLD})
    till = Till(bootstrap)
    assert (0, 0, 0) == (till.add(), till.send(), till.end())
    ctl("wait", '{"rule": {"name": "markers", "held": 1}}')
    rule, partition, transaction = ctl("why").splitlines()
    assert rule.startswith("Rule markers holds WRITE_TXN_MARKERS v")
    assert partition.startswith("Consumers (read_committed) of t-0 stop at offset 0 of 1: till-1 is PrepareCommit")
    assert transaction.startswith("Transaction till-1 is PrepareCommit for ")
    assert 1 == len(ctl("why", "t-0").splitlines())
    [first, second, *events] = ctl("why", "till-1", "--events").splitlines()
    assert ["Consumers", "Transaction"] == [first.split()[0], second.split()[0]]
    assert any("request END_TXN v3 of till" in event for event in events)
    told = json.loads(ctl("why", "--json"))
    assert [rule[:20], partition[:20], transaction[:20]] == [each["sentence"][:20] for each in told["reasons"]]
    assert {"now_ms", "reasons", "sentences", "events"} == told.keys()
    with pytest.raises(UsageError, match="There is no rule, partition, transactional id, group or broker menus-0"):
        ctl("why", "menus-0")
    till.close()


HOLD = {"hold": True}


@pytest.mark.slow
def test_what_is_wrong_is_a_sentence(ctl: Ctl, hub: HubClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"Which cluster\? there is none: odradek ctl make"):
        ctl("show")
    one, other = made(hub)[0], made(hub)[0]
    with pytest.raises(UsageError, match="give --cluster"):
        ctl("show")
    assert one in ctl("show", "--cluster", one)
    monkeypatch.setenv("ODRADEK_CLUSTER", other)
    assert other in ctl("show")
    with pytest.raises(UsageError, match="There is no broker 9"):
        ctl("stop", "9")
    with pytest.raises(UsageError, match="After 0 ms: no coordinator knows x"):
        ctl("wait", '{"transaction": {"id": "x", "state": "Empty"}}', "--timeout", "0ms")
    with pytest.raises(UsageError, match="After 20 ms: no coordinator knows x"):
        ctl("wait", '{"transaction": {"id": "x", "state": "Empty"}, "timeout_ms": 20}')
    with pytest.raises(UsageError, match="by --timeout or by timeout_ms in the condition, not by both"):
        ctl("wait", '{"timeout_ms": 200}', "--timeout", "5s")
    for timeout in ("-1", '"5s"', "true", "1e3", "600001"):
        with pytest.raises(UsageError, match="How long to wait is a whole number of milliseconds up to 600000"):
            ctl("wait", f'{{"timeout_ms": {timeout}}}')
    for text in ("{", "{rule: late}", "-"):
        with pytest.raises(UsageError, match="The condition is no JSON"):
            ctl("wait", text)
    with pytest.raises(UsageError, match="The condition is an object of JSON"):
        ctl("wait", "[]")
    plan = tmp_path / "plan.yaml"
    plan.write_text("- {match: {api: NO_SUCH}, act: {drop: true}}")
    with pytest.raises(UsageError, match=r"\$\[0\].match.api"):
        ctl("arm", str(plan))
    with pytest.raises(UsageError, match="Cannot read"):
        ctl("arm", str(tmp_path / "none.yaml"))
    for url in ("foo", "localhost:9644", "file:///etc/passwd", "http://", "http://[::1", "http://localhost:99999"):
        with pytest.raises(UsageError, match=r"A hub has a URL such as http://127.0.0.1:9644, and .* is none\."):
            ctl("clusters", "--hub", url)
    monkeypatch.setenv("ODRADEK_HUB", "http://127.0.0.1:1")
    with pytest.raises(
        UsageError, match=r"No hub answers at http://127.0.0.1:1: .*refused\. `odradek hub` starts one\."
    ):
        ctl("clusters")
