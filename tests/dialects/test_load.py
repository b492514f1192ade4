"""Reading a dialect: what it makes of a release, and the sentence for what cannot be."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import cast

import pytest

from odradek.cli.usage import UsageError
from odradek.config.table import Config, ConfigError
from odradek.host.call import UNREAD, Call
from odradek.host.endpoint import EVERYBODY, endpoint
from odradek.host.host import Host
from odradek.host.router import Router
from odradek.releases.dialects.load import load, names, producer_class
from odradek.releases.dialects.producer import Producer
from odradek.releases.table import RELEASES
from odradek.txn.decision_tables import SHIPPED, rules_of
from odradek.wire import generate
from odradek.wire.messages.apis import END_TXN
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.end_txn_response import EndTxnResponse
from odradek.wire.registry import ApiKey
from odradek.wire.schema import MessageSpec

Write = Callable[..., Path]
KNOWN = ", ".join([*RELEASES, *names()])
HEAD = 'name = "mine"\nbase = "4.4"\n'


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODRADEK_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(toml: str = HEAD, *, tables: str | None = None, **messages: object) -> Path:
        folder = tmp_path / "mine"
        (folder / "messages").mkdir(parents=True, exist_ok=True)
        (folder / "dialect.toml").write_text(toml)
        if tables is not None:
            (folder / "tables.py").write_text(tables)
        for name, schema in messages.items():
            text = schema if isinstance(schema, str) else json.dumps(schema)
            (folder / "messages" / f"{name}.json").write_text(text)
        return folder

    return write


def test_a_dialect_that_says_nothing_is_its_base(write: Write) -> None:
    release = load(str(write()))

    assert ("mine", "4.4") == (release.name, release.base)
    assert RELEASES["4.4"].apis == release.apis
    assert SHIPPED == rules_of(release)


def test_what_it_says_is_laid_over_its_base(write: Write) -> None:
    toml = """
        name = "mine"
        base = "3.9"
        [apis]
        Produce = [3, 10]
        ListTransactions = false
        [features]
        "transaction.version" = { levels = [0, 2], default = 1 }
        [configs]
        "transaction.max.timeout.ms" = 5000
        "auto.create.topics.enable" = false
        [since]
        end_bumps = 4
        [verification]
        offsets = false
        [switches]
        fences_before_waiting = false
    """
    release = load(str(write(toml)))
    config = Config.parse({}, release)

    assert release.apis is not None
    assert (3, 10) == release.apis["PRODUCE"]
    assert "LIST_TRANSACTIONS" not in release.apis
    assert RELEASES["3.9"].apis is not None
    assert RELEASES["3.9"].apis["FETCH"] == release.apis["FETCH"]
    assert (5000, False) == (config.transaction_max_timeout_ms, config.auto_create_topics_enable)
    assert 1 == config.odradek_transaction_version
    assert [False, True] == [version >= rules_of(release).since.end_bumps for version in (3, 4)]
    assert not release.verification.offsets
    assert not release.fences_before_waiting


def test_a_config_that_is_given_is_above_the_dialects(write: Write) -> None:
    release = load(str(write(HEAD + '[configs]\n"transaction.max.timeout.ms" = 5000\n')))

    assert 7 == Config.parse({"transaction.max.timeout.ms": "7"}, release).transaction_max_timeout_ms
    dynamic = Config.parse({}, release).dynamic(cluster={}, broker={})
    assert 5000 == dynamic.transaction_max_timeout_ms
    assert dynamic.release is release


def test_a_dialect_may_be_over_another(write: Write, tmp_path: Path) -> None:
    write(HEAD + "[apis]\nEndTxn = [0, 4]\n[since]\nend_bumps = 4\n")
    above = tmp_path / "above"
    above.mkdir()
    (above / "dialect.toml").write_text('name = "above"\nbase = "../mine"\n[apis]\nProduce = [3, 11]\n')
    release = load(str(above))

    assert release.apis is not None
    assert ((0, 4), (3, 11)) == (release.apis["END_TXN"], release.apis["PRODUCE"])
    assert 4 == rules_of(release).since.end_bumps


def test_a_file_of_a_response_says_the_versions_of_its_request_too(write: Write) -> None:
    field = {"name": "Count", "type": "int32", "versions": "6+", "default": "-1"}
    release = load(str(write(EndTxnResponse={"validVersions": "0-6", "fields": [field]})))

    assert release.codecs is not None
    assert (0, 6) == release.codecs.valid_versions(EndTxnRequest) == (release.apis or {})["END_TXN"]
    assert [False, True] == [Router(release).serves(ApiKey.END_TXN, range(6, each)) for each in (6, 7)]


class EndTxnAlone:
    @endpoint(END_TXN, needs=EVERYBODY)
    async def end_txn(self, call: Call[EndTxnRequest]) -> EndTxnResponse:
        return EndTxnResponse()


class Steps(list[tuple[str, int]]):
    """Stands for a node: the steps that have had a call."""

    authority = None

    def family(self, name: str) -> object:
        return EndTxnAlone()


def test_steps_of_dialects_lie_one_over_the_other_from_their_versions_on(write: Write, tmp_path: Path) -> None:
    above = tmp_path / "above"
    above.mkdir()
    (above / "dialect.toml").write_text('name = "above"\nbase = "../mine"\n')
    (above / "tables.py").write_text(STEP.format(api="END_TXN", since=""))
    write(tables=STEP.format(api="END_TXN", since=", since=4"))
    steps = Steps()
    router = Router(load(str(above)), node=cast("Host", steps))
    for version in (3, 4):
        handler = router.handler(ApiKey.END_TXN, version, broker=False)
        assert handler is not None
        with pytest.raises(StopIteration) as ended:
            handler.serve(Call(ApiKey.END_TXN, version, 1, None, UNREAD, "host", False)).send(None)
        assert EndTxnResponse() == ended.value.value
    (upper, _), _, (lower, _) = steps

    assert upper != lower
    assert [(upper, 3), (upper, 4), (lower, 4)] == steps
    assert router.is_overlaid(ApiKey.END_TXN)
    assert not Router(RELEASES["4.4"]).is_overlaid(ApiKey.END_TXN)


def test_a_message_has_its_fields_and_readers(write: Write) -> None:
    field = {"name": "Count", "type": "int32", "versions": "5+", "default": "-1", "ignorable": True}
    codecs = load(str(write(EndTxnResponse={"fields": [field]}))).codecs
    assert codecs is not None
    cls = codecs.response_type(ApiKey.END_TXN)
    ordinary = EndTxnResponse(error_code=3)
    written = codecs.encode(ordinary, 5)

    assert issubclass(cls, EndTxnResponse)
    assert codecs.own(ordinary, count=-1) == codecs.reader(EndTxnResponse, 5)(memoryview(written), 0)[0]
    told = codecs.encode(codecs.own(ordinary, count=7), 5)
    assert codecs.own(ordinary, count=7) == codecs.reader(EndTxnResponse, 5)(memoryview(told), 0)[0]
    assert codecs.own(ordinary) == codecs.reader(EndTxnResponse, 4)(memoryview(codecs.encode(ordinary, 4)), 0)[0]


def test_a_message_is_built_once(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    build: Callable[..., str] = generate.message_source

    def counted(spec: MessageSpec, schema: str, path: str, *, below: Collection[str] = ()) -> str:
        calls.append(spec)
        return build(spec, schema, path, below=below)

    monkeypatch.setattr(generate, "message_source", counted)
    folder = write(EndTxnResponse={"about": "built once"})
    for _ in range(2):
        codecs = load(str(folder)).codecs
        assert codecs is not None
        del sys.modules[codecs.response_type(ApiKey.END_TXN).__module__]

    assert 1 == len(calls)
    assert 1 == len(list((tmp_path / "cache" / "messages").glob("*.py")))


def test_a_message_is_built_where_nothing_can_be_kept(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ODRADEK_CACHE", str(tmp_path / "file" / "below"))
    codecs = load(str(write(EndTxnResponse={"about": "never kept"}))).codecs

    assert codecs is not None
    assert codecs.response_type(ApiKey.END_TXN) is not EndTxnResponse


ROW = """
from odradek.releases.dialects.tables import Tables
from odradek.txn.states import *
from odradek.wire.errors import ErrorCode
"""
STEP = """
from odradek.host.overlay import overlay
from odradek.wire.messages.apis import *

@overlay({api}{since})
async def step(node, call, serve):
    node.append((__name__, call.version))
    return await serve(call)
"""
NEW_FIELD = {"name": "Count", "type": "int32"}
BAD: dict[str, tuple[dict[str, object], str]] = {
    "no toml": ({"toml": "name ="}, "mine/dialect.toml: not TOML: Invalid value (at end of document)."),
    "no base": ({"toml": 'name = "mine"'}, "mine/dialect.toml: base: a dialect has one."),
    "unknown base": (
        {"toml": 'name = "mine"\nbase = "5.0"'},
        "mine/dialect.toml: base: there is no release or dialect 5.0: there are "
        + ", ".join([*RELEASES, *names()])
        + ".",
    ),
    "unknown key": (
        {"toml": HEAD + "[api]"},
        (
            "mine/dialect.toml: api: there is no such key: there are name, title, base, apis, features, configs, "
            "since, verification, producers, switches."
        ),
    ),
    "unknown api": (
        {"toml": HEAD + "[apis]\nBeginTxn = [0, 0]"},
        "mine/dialect.toml: apis.BeginTxn: the broker serves no such API.",
    ),
    "no range": (
        {"toml": HEAD + "[apis]\nEndTxn = 4"},
        "mine/dialect.toml: apis.EndTxn: it is the lowest and the highest version, or false, not 4.",
    ),
    "version without schema": (
        {"toml": HEAD + "[apis]\nEndTxn = [0, 6]"},
        "mine/dialect.toml: apis.EndTxn: versions 0 to 6 are offered, and EndTxnRequest has a schema for 0 to 5.",
    ),
    "schema that lost a version": (
        {"EndTxnRequest": {"about": "as it was"}, "EndTxnResponse": {"validVersions": "0-4"}},
        "mine/dialect.toml: apis.EndTxn: versions 0 to 5 are offered, and EndTxnResponse has a schema for 0 to 4.",
    ),
    "unknown config": (
        {"toml": HEAD + "[configs]\nspeed = 9"},
        "mine/dialect.toml: configs.speed: there is no such configuration key of a broker.",
    ),
    "bad config": (
        {"toml": HEAD + '[configs]\n"num.partitions" = 0'},
        (
            "mine/dialect.toml: configs.num.partitions: Invalid value 0 for configuration num.partitions: "
            "Value must be at least 1."
        ),
    ),
    "unknown message": (
        {"EndTransactionRequest": {}},
        (
            "messages/EndTransactionRequest.json: there is no message EndTransactionRequest: "
            "a file is named as the message that it changes."
        ),
    ),
    "no json": (
        {"EndTxnRequest": "{"},
        (
            "messages/EndTxnRequest.json: not JSON: "
            "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)."
        ),
    ),
    "another api": (
        {"EndTxnRequest": {"apiKey": 27}},
        "messages/EndTxnRequest.json: apiKey: it is 26 in Kafka, and an overlay cannot make it another.",
    ),
    "field without a rule": (
        {"EndTxnResponse": {"fields": [NEW_FIELD | {"versions": "5+", "tag": 0}]}},
        "messages/EndTxnResponse.json: EndTxnResponse.Count: tag and taggedVersions belong together.",
    ),
    "tag too far": (
        {"TransactionLogValue": {"fields": [NEW_FIELD | {"taggedVersions": "1+", "tag": 5}]}},
        (
            "messages/TransactionLogValue.json: TransactionLogValue: "
            "the tags of TransactionLogValue are [0, 1, 2, 3, 5], not 0 and up without a gap."
        ),
    ),
    "unknown type": (
        {"EndTxnResponse": {"fields": [{"name": "Count", "type": "int33", "versions": "5+"}]}},
        "messages/EndTxnResponse.json: EndTxnResponse.Count: unknown type int33.",
    ),
    "no tables": (
        {"tables": "X = 1"},
        "mine/tables.py: TABLES: there is none, or it is no odradek.releases.dialects.tables.Tables.",
    ),
    "broken tables": (
        {"tables": "import nothing_of_the_kind"},
        "mine/tables.py: it cannot be run: ModuleNotFoundError: No module named 'nothing_of_the_kind'.",
    ),
    "unknown table": (
        {"tables": ROW + "TABLES = Tables(begin_txn={})"},
        "mine/tables.py: it cannot be run: TypeError: Unexpected keyword argument 'begin_txn'.",
    ),
    "row that does not exist": (
        {"tables": ROW + "TABLES = Tables(end_txn={(TxnState.EMPTY, Outcome.COMMIT): ErrorCode.NONE})"},
        "mine/tables.py: end_txn[Empty, commit]: there is no such row in the table END_TXN.",
    ),
    "sparse row of another kind": (
        {"tables": ROW + "TABLES = Tables(verdicts={ErrorCode.NONE: ErrorCode.NONE})"},
        "mine/tables.py: verdicts[NONE]: there is no such row in the table VERDICTS.",
    ),
    "answer that is none": (
        {"tables": ROW + "TABLES = Tables(end_txn={(TxnState.EMPTY, Outcome.COMMIT, EpochRelation.CURRENT): 48})"},
        "mine/tables.py: end_txn[Empty, commit, current]: a row answers with EndAction or ErrorCode, not with 48.",
    ),
    "check that does not exist": (
        {"tables": ROW + "TABLES = Tables(request_checks={'the id is short': None})"},
        "mine/tables.py: request_checks['the id is short']: there is no such check: there are "
        + ", ".join(repr(check.meaning) for check in SHIPPED.request_checks)
        + ".",
    ),
    "request that does not exist": (
        {"tables": ROW + "TABLES = Tables(waiting={'AddPartitions': True})"},
        "mine/tables.py: waiting[AddPartitions]: there is no such row in the table WAITING.",
    ),
    "a base that is a folder without a dialect": (
        {"toml": 'name = "mine"\nbase = "../nowhere"\n'},
        f"mine/dialect.toml: base: there is no release or dialect ../nowhere: there are {KNOWN}.",
    ),
    "version without a schema": (
        {"toml": HEAD + "[apis]\nEndTxn = [0, 9]\n"},
        "mine/dialect.toml: apis.EndTxn: versions 0 to 9 are offered, and EndTxnRequest has a schema for 0 to 5.",
    ),
    "endpoint that clients do not have": (
        {"tables": STEP.format(api="ALLOCATE_PRODUCER_IDS", since="")},
        "mine/tables.py: overlay(ALLOCATE_PRODUCER_IDS): the broker serves clients no such API.",
    ),
}


@pytest.mark.parametrize(("files", "sentence"), BAD.values(), ids=BAD.keys())
def test_what_cannot_be_is_refused_in_one_sentence(files: dict[str, object], sentence: str, write: Write) -> None:
    with pytest.raises(UsageError) as refused:
        load(str(write(**files)))
    assert sentence == str(refused.value)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("kip-1", f"There is no dialect kip-1: there are {', '.join(names())}, and folders with a dialect.toml."),
        ("./nowhere", "./nowhere is no dialect: there is no dialect.toml in it."),
    ],
)
def test_a_dialect_that_is_not_there(name: str, sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        load(name)
    assert sentence == str(refused.value)


NO_PRODUCER = "mine/producer.py: PRODUCER: there is none, or it is no odradek.releases.dialects.producer.Producer."


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "X = 1",
            "mine/producer.py: PRODUCER: there is none, or it is no odradek.releases.dialects.producer.Producer.",
        ),
        (
            "PRODUCER = str",
            "mine/producer.py: PRODUCER: there is none, or it is no odradek.releases.dialects.producer.Producer.",
        ),
        ("1 / 0", "mine/producer.py: it cannot be run: ZeroDivisionError: division by zero."),
    ],
    ids=["none", "another class", "broken"],
)
def test_a_producer_that_is_none(text: str, sentence: str, write: Write) -> None:
    folder = write()
    (folder / "producer.py").write_text(text)
    with pytest.raises(UsageError) as refused:
        producer_class(str(folder))
    assert sentence == str(refused.value)


def test_the_producer_of_a_dialect_is_that_of_what_it_is_over(write: Write) -> None:
    assert producer_class("kip-609-draft") is producer_class(str(write('name = "mine"\nbase = "kip-609-draft"\n')))
    assert producer_class("kip-890-older-text") is Producer


def test_a_broker_of_kafka_loads_nothing_of_dialects() -> None:
    """What nobody asks for costs no start anything."""
    program = (
        "import sys, odradek.cli.main, odradek.net.cluster, odradek.testing;"
        "print([name for name in sys.modules if name.startswith('odradek.releases.dialects')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "[]\n" == done.stdout


def test_a_release_and_a_dialect_exclude_one_another(write: Write) -> None:
    with pytest.raises(ConfigError, match=r"^A broker is a release of Kafka or a dialect; mine is over 4\.4\.$"):
        Config.parse({"odradek.as.kafka": "3.9"}, load(str(write())))


def test_a_level_that_a_dialect_does_not_have(write: Write) -> None:
    release = load(str(write(HEAD + '[features]\n"transaction.version" = false\n')))

    with pytest.raises(ConfigError, match=r"^mine has no level 2 of transaction\.version: it does not have"):
        Config.parse({"odradek.transaction.version": "2"}, release)
