"""Requests and responses as events, over sockets: pairs, what is answered with an error or not at all, and secrets."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from tests.net.test_serve import refused, serving, split
from tests.security.tokens import log_in, made
from tests.security.wire import Raw, plain

from odradek.net.client import BlockingClient
from odradek.net.recent import Recent
from odradek.records.record import Record, build_batch
from odradek.testing import Cluster, rule
from odradek.wire import registry
from odradek.wire.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from odradek.wire.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.metadata_request import MetadataRequest
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from odradek.wire.messages.request_header import RequestHeader

pytestmark = pytest.mark.slow


def told(recent: Recent) -> list[dict[str, Any]]:
    return [json.loads(line) for line in recent.lines()]


def pairs(events: list[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    """The API of each request of a client, and what was told of it, in order."""
    found: dict[tuple[object, ...], list[str]] = {}
    for event in events:
        if event["kind"] in ("request", "response") and not event["client_id"].startswith("broker-"):
            key = (event["api"], event["node"], event["connection"], event["correlation"])
            found.setdefault(key, []).append(event.get("error", "asked"))
    return [(str(key[0]), said) for key, said in found.items()]


def produce(topic: str, *, acks: int = -1, size: int = 10) -> ProduceRequest:
    records = memoryview(build_batch([Record(timestamp=0, key=None, value=bytes(size))]))
    data = PartitionProduceData(index=0, records=records)
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=[data])])


def test_requests_and_their_responses() -> None:
    recent = Recent()
    with Cluster(topics=["t"], events=recent) as cluster:
        address = cluster.bootstrap
        with BlockingClient(address, client_id="one") as one, BlockingClient(address, client_id="two") as two:
            for client in (one, two):
                client.ask(MetadataRequest(topics=[]), 12)
            one.ask(produce("nowhere"), 9)
            two.ask(produce("t", size=900_000), 9)
            two.ask(EndTxnRequest(transactional_id="x", producer_id=1, producer_epoch=0, committed=True), 3)
    events = told(recent)
    assert [
        ("METADATA", ["asked", "NONE"]),
        ("METADATA", ["asked", "NONE"]),
        ("PRODUCE", ["asked", "UNKNOWN_TOPIC_OR_PARTITION"]),
        ("PRODUCE", ["asked", "NONE"]),
        ("END_TXN", ["asked", "INVALID_PRODUCER_ID_MAPPING"]),
    ] == pairs(events)
    names = {event["connection"]: event["client_id"] for event in events if event["kind"] == "request"}
    assert {"one", "two"} == {name for connection, name in names.items() if connection > 0}
    records = [
        event["body"]["topicData"][0]["partitionData"][0]["records"]["bytes"]
        for event in events
        if event["kind"] == "request" and event["api"] == "PRODUCE"
    ]
    assert records[0] < 100 < 900_000 < records[1]
    assert all("body" in event for event in events if event["kind"] in ("request", "response"))


def framed(request: Struct, version: int) -> bytes:
    """The bytes of a request, whose answer nobody waits for."""
    api_key = registry.api_of(type(request))
    header = registry.encode(RequestHeader(int(api_key), version, 99, "c"), 2)
    data = header + registry.encode(request, version)
    return len(data).to_bytes(4) + data


def test_where_the_client_gets_no_answer() -> None:
    recent = Recent()
    with Cluster(topics=["t"], events=recent) as cluster:
        address = split(cluster.bootstrap)
        with Raw(address) as raw:
            raw.send(framed(produce("t", acks=0), 9))
            assert raw.ask(MetadataRequest(topics=[]), 12)
        for act in ({"disconnect": "before"}, {"disconnect": "after"}):
            armed = cluster.add_rule(rule("METADATA", **act))  # type: ignore[arg-type]
            with Raw(address) as raw:
                assert raw.ask(MetadataRequest(topics=[]), 12) is None
            cluster.remove_rule(armed)
        cluster.add_rule(rule("METADATA", name="dropped", drop=True))
        with Raw(address) as raw:
            raw.send(framed(MetadataRequest(topics=[]), 12))
            cluster.wait(rule={"name": "dropped", "hits": 1})
    assert [
        ("PRODUCE", ["asked"]),
        ("METADATA", ["asked", "NONE"]),
        ("METADATA", ["asked"]),
        ("METADATA", ["asked"]),
        ("METADATA", ["asked"]),
    ] == pairs(told(recent))


# ---------------------------------------------------------------------- secrets


ALICE, SALTED, JAAS, HUSH = "alice-secret", b"salted-and-secret", "jaas-that-nobody-sees", "hush-hush"
SECURED = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "odradek.sasl.users": f"alice:{ALICE}",
    "delegation.token.secret.key": HUSH,
    "ssl.keystore.password": JAAS,
}


def test_no_line_has_a_secret() -> None:
    """A login by PLAIN, by SCRAM and by a token, one that fails, credentials, tokens and configurations."""
    recent = Recent()
    with Cluster(brokers=3, config=SECURED, events=recent) as cluster:
        hmacs = [tells_secrets(split(address)) for address in cluster.bootstrap.split(",")]
    lines, events = list(recent.lines()), told(recent)
    assert all(["asked", said[-1]] == said for _, said in pairs(events))
    passed_on = [event["api"] for event in events if event["kind"] == "response" and event["connection"] < 0]
    assert 2 * ["CREATE_DELEGATION_TOKEN", "RENEW_DELEGATION_TOKEN"] == passed_on
    apis = {event["api"] for event in events if event["kind"] == "response" and "body" in event}
    assert {
        "SASL_HANDSHAKE",
        "SASL_AUTHENTICATE",
        "ALTER_USER_SCRAM_CREDENTIALS",
        "CREATE_DELEGATION_TOKEN",
        "DESCRIBE_DELEGATION_TOKEN",
        "RENEW_DELEGATION_TOKEN",
        "INCREMENTAL_ALTER_CONFIGS",
        "DESCRIBE_CONFIGS",
        "ENVELOPE",
    } <= apis
    text = b"\n".join(lines)
    assert b"SASL_AUTHENTICATION_FAILED" in text
    for secret in (ALICE.encode(), b"wrong-secret", SALTED, JAAS.encode(), HUSH.encode(), *hmacs):
        for form in (secret, base64.b64encode(secret), base64.urlsafe_b64encode(secret), secret.hex().encode()):
            assert form.rstrip(b"=") not in text


def tells_secrets(address: tuple[str, int]) -> bytes:
    """What a client says that nobody else should read; the hmac of its token."""
    with Raw(address) as raw:
        raw.handshake("PLAIN")
        raw.authenticate(plain("alice", "wrong-secret"))
    with Raw(address) as raw:
        raw.scram("SCRAM-SHA-256", "alice", ALICE)
    with Raw(address) as raw:
        raw.handshake("PLAIN")
        raw.authenticate(plain("alice", ALICE))
        credential = ScramCredentialUpsertion(
            name="bob", mechanism=1, iterations=4096, salt=b"salt", salted_password=SALTED
        )
        raw.ask(AlterUserScramCredentialsRequest(upsertions=[credential]), 0)
        secret = [AlterableConfig(name=name, value=JAAS) for name in ("sasl.jaas.config", "ssl.key.password")]
        broker = AlterConfigsResource(resource_type=4, resource_name="", configs=secret)
        raw.ask(IncrementalAlterConfigsRequest(resources=[broker]), 1)
        everything = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)
        raw.ask(DescribeConfigsRequest(resources=[everything], include_synonyms=True), 4)
        token = made(raw)
        raw.ask(DescribeDelegationTokenRequest(owners=None), 3)
        raw.ask(RenewDelegationTokenRequest(hmac=bytes(token.hmac)), 2)
        log_in(raw, token)
    return bytes(token.hmac)


# ---------------------------------------------------------------------- odradek serve


@pytest.mark.parametrize("bodies", [True, False])
def test_the_event_file_has_bodies_if_they_are_wanted(tmp_path: Path, bodies: bool) -> None:
    path = tmp_path / "events.jsonl"
    options = ["--events", str(path), "--topic", "t", *["--event-bodies"] * bodies]
    with serving(*options) as (_, [(host, port)]), BlockingClient(f"{host}:{port}", client_id="c") as client:
        client.ask(produce("t", size=100_000), 9)
    events = [json.loads(line) for line in path.read_bytes().splitlines()]
    [request, response] = [
        event for event in events if event["kind"] in ("request", "response") and event["api"] == "PRODUCE"
    ]
    assert ("request", "response", "NONE") == (request["kind"], response["kind"], response["error"])
    assert [bodies, bodies] == ["body" in request, "body" in response]
    if bodies:
        assert "t" == request["body"]["topicData"][0]["name"]


def test_bodies_without_events_are_refused() -> None:
    assert "--event-bodies goes with --events." in refused("--event-bodies")
