"""What requests and responses say, as events show it: each API, secrets, large messages, numbers that JSON lacks."""

from __future__ import annotations

import base64
import gzip
import json
import tracemalloc
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from tests.unit.host.helpers import batch, produce_request

from odradek.core.event_line import event_line
from odradek.host.bodies import (
    BODY_BYTES_MAX,
    HIDDEN,
    PACKED,
    Kept,
    kept_frame,
    kept_message,
    kept_response,
    rendered,
)
from odradek.host.request_facts import RequestFact
from odradek.host.router import Handler, Router
from odradek.net.recent import Recent
from odradek.wire import registry
from odradek.wire.messages.alter_client_quotas_request import AlterClientQuotasRequest, EntryData, OpData
from odradek.wire.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from odradek.wire.messages.create_delegation_token_response import CreateDelegationTokenResponse
from odradek.wire.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from odradek.wire.messages.describe_delegation_token_response import (
    DescribedDelegationToken,
    DescribeDelegationTokenResponse,
)
from odradek.wire.messages.envelope_request import EnvelopeRequest
from odradek.wire.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from odradek.wire.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from odradek.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.metadata_response import MetadataResponse, MetadataResponseTopic
from odradek.wire.messages.produce_request import ProduceRequest
from odradek.wire.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from odradek.wire.messages.sasl_authenticate_request import SaslAuthenticateRequest
from odradek.wire.messages.sasl_authenticate_response import SaslAuthenticateResponse
from odradek.wire.primitives import Splices
from odradek.wire.registry import ApiKey

VECTORS = Path(__file__).parents[2] / "vectors" / "data" / "vectors-dev.jsonl.gz"
ROUTER = Router(unstable_versions=True)
SECRET = b"the-secret-of-alice"


def handler_of(api_key: ApiKey, version: int) -> Handler:
    handler = ROUTER.handler(api_key, version, broker=True)
    assert handler is not None
    return handler


def body(kept: Kept, cls: type[Struct], version: int, start: int = 0) -> Any:
    """The body as a reader of the event file has it."""
    return json.loads(event_line(rendered(kept, start, cls, version))).get("body")


def body_of_request(request: Struct, version: int) -> Any:
    handler = handler_of(registry.api_of(type(request)), version)
    kept = kept_frame(handler.api, memoryview(registry.encode(request, version)), 0, request)
    return body(kept, type(request), version)


# ---------------------------------------------------------------------- every API


@cache
def vectors() -> Mapping[str, list[dict[str, Any]]]:
    """What Kafka's own classes wrote, by the name of the message; of requests and responses."""
    found: dict[str, list[dict[str, Any]]] = {}
    with gzip.open(VECTORS) as lines:
        for line in lines:
            vector = json.loads(line)
            if vector["type"] in ("request", "response"):
                found.setdefault(vector["name"], []).append(vector)
    return found


NAMES = sorted(registry.request_type(key).__name__ for key in registry.APIS) + sorted(
    registry.response_type(key).__name__ for key in registry.APIS
)


@pytest.mark.parametrize("name", NAMES)
def test_each_api_is_shown_as_kafka_writes_it(name: str) -> None:
    """Its names and values; records and bytes are summarised, and what is secret is not told."""
    for vector in vectors().get(name, []):
        cls, version = registry.message_type(name), vector["version"]
        low, high = registry.valid_versions(cls)
        if not low <= version <= high or vector.get("unknownTaggedFields"):
            continue
        data = bytes.fromhex(vector["hex"])
        message = registry.decode(cls, data, version)
        assert_same(body(data, cls, version), vector["json"])
        packed = kept_message(message)
        if packed is not None:
            assert body(packed, cls, version, PACKED) == body(data, cls, version)


def test_most_apis_have_vectors() -> None:
    assert 150 < len(vectors().keys() & set(NAMES))


def assert_same(shown: Any, written: Any) -> None:
    """Equal but for what is summarised or hidden."""
    if isinstance(shown, dict) and isinstance(written, str):
        assert {"bytes"} <= shown.keys()
        assert len(base64.b64decode(written)) == shown["bytes"]
    elif isinstance(shown, dict):
        assert list(shown) == list(written)
        for name, value in shown.items():
            assert_same(value, written[name])
    elif isinstance(shown, list):
        assert len(shown) == len(written)
        for one, other in zip(shown, written, strict=True):
            assert_same(one, other)
    elif shown != HIDDEN:
        assert shown == written


# ---------------------------------------------------------------------- secrets


def configs(**values: str) -> IncrementalAlterConfigsRequest:
    entries = [AlterableConfig(name=name.replace("_", "."), value=value) for name, value in values.items()]
    return IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(resource_type=4, configs=entries)])


PASSWORD = SECRET.decode()
SECRETS: list[tuple[Struct, int]] = [
    (
        AlterUserScramCredentialsRequest(
            upsertions=[ScramCredentialUpsertion(name="alice", salt=SECRET, salted_password=SECRET)]
        ),
        0,
    ),
    (SaslAuthenticateRequest(auth_bytes=b"\0alice\0" + SECRET), 2),
    (SaslAuthenticateResponse(auth_bytes=SECRET), 2),
    (CreateDelegationTokenResponse(hmac=SECRET), 3),
    (DescribeDelegationTokenResponse(tokens=[DescribedDelegationToken(hmac=SECRET)]), 3),
    (RenewDelegationTokenRequest(hmac=SECRET), 2),
    (ExpireDelegationTokenRequest(hmac=SECRET), 2),
    (EnvelopeRequest(request_data=SECRET, request_principal=SECRET, client_host_address=SECRET), 0),
    (configs(sasl_jaas_config=PASSWORD), 1),
    (configs(ssl_keystore_password=PASSWORD), 1),
    (configs(**{"listener.name.inside.scram-sha-256.sasl.jaas.config": PASSWORD}), 1),
    (configs(nobody_knows_this=PASSWORD), 1),
    (
        DescribeConfigsResponse(
            results=[
                DescribeConfigsResult(
                    configs=[
                        DescribeConfigsResourceResult(
                            name="ssl.key.password",
                            value=PASSWORD,
                            synonyms=[DescribeConfigsSynonym(name="ssl.key.password", value=PASSWORD)],
                        )
                    ]
                )
            ]
        ),
        4,
    ),
]


@pytest.mark.parametrize(("message", "version"), SECRETS, ids=lambda each: type(each).__name__)
def test_secrets_are_not_shown(message: Struct, version: int) -> None:
    for kept, start in ((registry.encode(message, version), 0), (kept_message(message), PACKED)):
        line = event_line(rendered(kept, start, type(message), version))
        assert b'"body":' in line
        assert isinstance(message, EnvelopeRequest) or HIDDEN.encode() in line
        for form in (SECRET, base64.b64encode(SECRET), SECRET.hex().encode()):
            assert form not in line


def test_a_configuration_that_is_no_secret_is_shown() -> None:
    request = configs(retention_ms="7", log_retention_ms="8", sasl_jaas_config="x", kafka_request_logger="DEBUG")
    [resource] = body_of_request(request, 1)["resources"]
    told = {each["name"]: each["value"] for each in resource["configs"]}
    assert {
        "retention.ms": "7",
        "log.retention.ms": "8",
        "sasl.jaas.config": HIDDEN,
        "kafka.request.logger": "DEBUG",
    } == told


def test_a_value_that_is_not_there_is_not_hidden() -> None:
    entry = AlterableConfig(name="sasl.jaas.config", config_operation=1, value=None)
    request = IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(configs=[entry])])
    assert body_of_request(request, 1)["resources"][0]["configs"][0]["value"] is None


# ---------------------------------------------------------------------- what is large


def test_of_a_large_produce_the_records_are_summarised() -> None:
    records = batch(bytes(100_000), producer_id=5, producer_epoch=1, sequence=9)
    shown = body_of_request(produce_request(records, topic="orders"), 9)
    [topic] = shown["topicData"]
    assert "orders" == topic["name"]
    [partition] = topic["partitionData"]
    assert {
        "bytes": len(records),
        "batches": 1,
        "records": 1,
        "baseOffset": 0,
        "producerId": 5,
        "producerEpoch": 1,
        "baseSequence": 9,
        "transactional": False,
        "control": False,
    } == partition["records"]
    small = body_of_request(produce_request(batch(b"x"), topic="orders"), 9)
    assert shown["topicData"][0].keys() == small["topicData"][0].keys()
    assert small["topicData"][0]["partitionData"][0]["records"].keys() == partition["records"].keys()


def test_of_a_large_fetch_too_and_the_response_stays_as_it_was() -> None:
    records = memoryview(batch(bytes(100_000)))
    partition = PartitionData(partition_index=3, high_watermark=9, records=records)
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    handler = handler_of(ApiKey.FETCH, 12)
    out, splices = bytearray(handler.response_start), Splices()
    handler.write(response, out, splices)
    assert splices
    shown = body(kept_response(handler.api, out, handler.response_start, splices, response), FetchResponse, 12)
    [told] = shown["responses"][0]["partitions"]
    assert (3, 9, len(records), 1) == (
        told["partitionIndex"],
        told["highWatermark"],
        told["records"]["bytes"],
        told["records"]["batches"],
    )
    assert partition.records is records


def test_what_is_large_without_records_has_a_size() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=f"topic-{number}") for number in range(1000)])
    frame = memoryview(bytes(30) + registry.encode(request, 12))
    handler = handler_of(ApiKey.METADATA, 12)
    assert {"body_bytes": len(frame) - 30} == rendered(
        kept_frame(handler.api, frame, 30, request), 30, MetadataRequest, 12
    )
    response = MetadataResponse(topics=[MetadataResponseTopic(name=f"topic-{number}") for number in range(1000)])
    out, splices = bytearray(9), Splices()
    handler.write(response, out, splices)
    kept = kept_response(handler.api, out, 9, splices, response)
    assert {"body_bytes": len(out) - 9} == rendered(kept, 9, MetadataResponse, 12)
    assert {} == rendered(kept_message(request), PACKED, MetadataRequest, 12)
    many = produce_request(b"")
    many.topic_data[0].partition_data *= 5_000
    frame = memoryview(registry.encode(many, 9))
    kept = kept_frame(handler_of(ApiKey.PRODUCE, 9).api, frame, 0, many)
    assert {"body_bytes": len(frame)} == rendered(kept, 0, ProduceRequest, 9)


@pytest.mark.parametrize("size", [BODY_BYTES_MAX - 1000, 900_000])
def test_the_events_of_ten_thousand_requests_hold_no_frame(size: int) -> None:
    handler = handler_of(ApiKey.PRODUCE, 9)
    data = registry.encode(produce_request(batch(bytes(size))), 9)
    recent = Recent(lambda: 0)
    tracemalloc.start()
    try:
        for _ in range(10_000):
            # Two requests often arrive together: the second one must not keep the first.
            came = memoryview(bytes(1000) + data)
            frame = came[1000:]
            request, _ = handler.read(frame, 0)
            kept = kept_frame(handler.api, frame, 0, request)
            recent.emit(1, (RequestFact("request", {}, handler.api, 1, "c", False, 1, 0, kept, 0),))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 10_000 == recent.last
    assert held < 10_000 * (2 * BODY_BYTES_MAX)
    if size > BODY_BYTES_MAX:
        assert held < 20 * 1024 * 1024


def test_a_message_that_changes_later_is_shown_as_it_was() -> None:
    request = produce_request(batch(b"x"), topic="before")
    handler, frame = handler_of(ApiKey.PRODUCE, 9), memoryview(registry.encode(request, 9))
    kept = [(kept_frame(handler.api, frame, 0, request), 0), (kept_message(request), PACKED)]
    large = produce_request(batch(bytes(10_000)), topic="before")
    kept.append((kept_frame(handler.api, memoryview(registry.encode(large, 9)), 0, large), 0))
    for each in (request, large):
        each.topic_data[0].partition_data[0].index = 77
        each.topic_data[0].name = "after"
    for way, start in kept:
        [topic] = body(way, ProduceRequest, 9, start)["topicData"]
        assert ("before", 0) == (topic["name"], topic["partitionData"][0]["index"])


# ---------------------------------------------------------------------- what JSON has no form for


NUMBERS = [
    (float("nan"), "NaN"),
    (float("inf"), "Infinity"),
    (float("-inf"), "-Infinity"),
    (1.5, 1.5),
    (1.7e308, 1.7e308),
    (5e-324, 5e-324),
]


@pytest.mark.parametrize(("value", "shown"), NUMBERS)
def test_numbers_that_are_not_finite(value: float, shown: object) -> None:
    request = AlterClientQuotasRequest(entries=[EntryData(ops=[OpData(key="k", value=value)])])
    assert shown == body_of_request(request, 1)["entries"][0]["ops"][0]["value"]


def test_texts_and_numbers_that_cannot_be_kept_are_left_out() -> None:
    assert kept_message(MetadataRequestTopic(name="\ud800")) is None
    assert kept_message(MetadataRequestTopic(name=2**70)) is None  # type: ignore[arg-type]
    assert {} == rendered(None, PACKED, MetadataRequest, 12)
