"""A watch over TLS and SASL, with rights that are missing: against Odradek, and against a real Kafka where asked."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.secured import Secured, give, odradek, real, take
from tests.pipeline.watch.test_running import committed, late_batch, open_one, watched

from odradek.cli.usage import UsageError
from odradek_pipeline.access.config import ClientConfig, read_config
from odradek_pipeline.watch.brokers import Brokers
from odradek_pipeline.watch.look import take_look
from odradek_pipeline.watch.running import Settings, watch_cluster

pytestmark = pytest.mark.client

LACKS_ALL = (
    "bob may not see everything: it lacks READ on all topics (or name those to watch with --topic), "
    "READ on topic __transaction_state, DESCRIBE on all transactional ids."
)
BOTH: list[Any] = [
    pytest.param(odradek, id="odradek"),
    pytest.param(
        real,
        id="kafka",
        marks=pytest.mark.skipif(not os.environ.get("ODRADEK_REAL_KAFKA"), reason="needs ODRADEK_REAL_KAFKA=1"),
    ),
]
Started = Callable[[Path], AbstractContextManager[Secured]]


@pytest.fixture(scope="module", params=BOTH)
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    started: Started = request.param
    with started(tmp_path_factory.mktemp("secured")) as running:
        committed(running.plain, "shop")
        yield running


def refused(secured: Secured, out: Path, properties: dict[str, str], bootstrap: str = "") -> str:
    settings = Settings(bootstrap or secured.bootstrap, out, once=True, config=ClientConfig(properties))
    with pytest.raises(UsageError) as wrong:
        watch_cluster(settings)
    assert 1 == len(str(wrong.value).splitlines())
    return str(wrong.value)


def soon(once: Callable[[], tuple[int, str]], code: int) -> str:
    """ACLs take a moment to reach all brokers."""
    deadline = time.monotonic() + 10
    while True:
        try:
            found, said = once()
        except UsageError as error:
            found, said = 2, str(error)
        if found == code or time.monotonic() > deadline:
            assert code == found, said
            return said
        time.sleep(0.1)


def test_a_hanging_transaction_is_named_over_tls_by_each_login(secured: Secured, tmp_path: Path) -> None:
    producer = committed(secured.plain, "till")
    for mechanism in ("PLAIN", "SCRAM-SHA-256"):
        config = read_config(secured.file(tmp_path, "alice", mechanism))
        code, said = watched(Settings(secured.bootstrap, tmp_path / mechanism, once=True, config=config))
        assert (0, True) == (code, "2 by clients of transaction.version" in said)
    assert 0 == late_batch(secured.plain, "till")
    began = time.monotonic()
    code, said = watched(Settings(secured.bootstrap, tmp_path / "PLAIN", once=True, config=config))
    assert (1, True) == (code, time.monotonic() - began < 10)
    (told,) = map(json.loads, (tmp_path / "PLAIN" / "incidents.jsonl").read_text().splitlines())
    assert ("hanging-transaction", "till") == (told["incident"], told["transactional_id"])
    assert "alice-secret" not in said + (tmp_path / "PLAIN" / "watch.json").read_text()
    open_one(producer)  # which fences what was left open, and ends it with its own marker
    producer.commit_transaction(30)
    settings = Settings(secured.bootstrap, tmp_path / "PLAIN", once=True, config=config)
    assert [1, 0] == [watched(settings)[0] for _ in range(2)]  # the first of them sees the incident end


def test_ways_in_that_are_none(secured: Secured, tmp_path: Path) -> None:
    alice = secured.properties("alice")
    said = refused(secured, tmp_path, secured.properties("alice", password="wrong"))
    assert "it refuses the login of alice by PLAIN (Authentication failed" in said
    assert "it refuses the login of alice by SCRAM-SHA-256" in refused(
        secured, tmp_path, secured.properties("alice", "SCRAM-SHA-256", "wrong")
    )
    assert "it has no logins by SCRAM-SHA-512, only by " in refused(
        secured, tmp_path, secured.properties("alice", "SCRAM-SHA-512")
    )
    others = {key: value for key, value in alice.items() if not key.startswith("ssl.")}
    assert "its certificate is not trusted: " in refused(secured, tmp_path, others)
    assert "it hangs up on the handshake: does it speak TLS" in refused(secured, tmp_path, alice, secured.plain)
    assert "(security.protocol is PLAINTEXT: --command-config)" in refused(secured, tmp_path, {})
    other_host = secured.bootstrap.replace("127.0.0.1", "127.0.0.2")
    assert "127.0.0.2" in refused(secured, tmp_path, alice, other_host)
    assert not (tmp_path / "watch.json").exists()


def test_rights_that_are_missing(secured: Secured, tmp_path: Path) -> None:
    bob = secured.properties("bob")
    settings = Settings(secured.bootstrap, tmp_path, once=True, config=ClientConfig(bob))
    narrow = Settings(secured.bootstrap, tmp_path, frozenset(["orders"]), once=True, config=ClientConfig(bob))
    assert LACKS_ALL == refused(secured, tmp_path, bob)
    give(secured, "orders", "coordinators", "ids")
    assert "watch: ok" in soon(lambda: watched(narrow), 0)
    said = refused(secured, tmp_path, bob)
    assert "bob may not see everything: it lacks READ on all topics (or name those to watch with --topic)." == said
    give(secured, "topics")
    soon(lambda: watched(settings), 0)
    take(secured, "ids")
    give(secured, "shop")
    said = soon(lambda: watched(settings), 2)
    assert "bob may not see everything: it lacks DESCRIBE on all transactional ids." == said
    take(secured, "topics", "orders", "coordinators", "shop")


def test_what_is_hidden_is_not_called_hanging(secured: Secured, tmp_path: Path) -> None:
    """Kafka leaves what a user may not see out of its lists, so it looks as if no coordinator knew it."""
    bob = ClientConfig(secured.properties("bob"))
    settings = Settings(secured.bootstrap, tmp_path, once=True, config=bob)
    give(secured, "topics", "ids")
    give(secured, "shop", denied=True)
    producer = committed(secured.plain, "shop")
    open_one(producer)
    said = soon(lambda: watched(settings), 2)
    assert "TRANSACTIONAL_ID_AUTHORIZATION_FAILED for shop" in said
    assert not (tmp_path / "incidents.jsonl").read_text()
    take(secured, "shop", denied=True)
    soon(lambda: watched(settings), 0)
    producer.abort_transaction(30)
    give(secured, "coordinators", denied=True)
    assert "READ on topic __transaction_state" in soon(lambda: watched(settings), 2)
    take(secured, "coordinators", denied=True)
    take(secured, "topics", "ids")


def test_a_right_that_is_taken_away_meanwhile(secured: Secured) -> None:
    """The transaction that is open is hidden from then on; nothing is said of it."""
    brokers = Brokers(secured.bootstrap, config=ClientConfig(secured.properties("bob")))
    give(secured, "topics", "ids")
    producer = committed(secured.plain, "shop")
    open_one(producer)
    looks = iter(lambda: take_look(brokers, 1), None)
    seen = next(look for look in looks if look.is_whole and look.under_way)
    assert not seen.unknown
    take(secured, "ids")
    hidden = next(look for look in looks if look.unknown or not look.is_whole)
    assert "DESCRIBE on all transactional ids is missing" in hidden.doubts
    brokers.close()
    take(secured, "topics")
    producer.abort_transaction(30)


def test_a_login_that_ends_is_renewed(tmp_path: Path) -> None:
    with odradek(tmp_path, config={"connections.max.reauth.ms": "1000"}) as running:
        config = ClientConfig(running.properties("alice", "SCRAM-SHA-256"))
        code, said = watched(Settings(running.bootstrap, tmp_path, interval=0.2, seconds=4, config=config))
    assert (0, False) == (code, "broker-away" in said), said
