"""Changing configs; texts are those of a real broker."""

from __future__ import annotations

import pytest
from tests.unit.metadata.helpers import broker, image_of, override, topic

from odradek.config.table import Config
from odradek.metadata.change import Change
from odradek.metadata.configs import Operation, alter_configs, incremental_alter_configs, misdirected
from odradek.metadata.image import MetadataImage, ResourceType
from odradek.wire.errors import ErrorCode
from odradek.wire.messages import alter_configs_request as plain
from odradek.wire.messages import incremental_alter_configs_request as incremental
from odradek.wire.messages.alter_configs_response import AlterConfigsResponse
from odradek.wire.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse

ONE_OF = "String must be one of"
TOPIC, BROKER, GROUP = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP
SET, DELETE, APPEND, SUBTRACT = Operation
BEFORE = image_of(broker(1), topic("t"), topic("u"), override("retention.ms", "5", of="t"))
CONFIG = Config()

Step = tuple[str, int, str | None]


def resource(of: str, *steps: Step, kind: int = TOPIC) -> incremental.AlterConfigsResource:
    configs = [incremental.AlterableConfig(name=name, config_operation=how, value=value) for name, how, value in steps]
    return incremental.AlterConfigsResource(resource_type=kind, resource_name=of, configs=configs)


def change_some(
    *resources: incremental.AlterConfigsResource, validate_only: bool = False, base: MetadataImage = BEFORE
) -> Change[IncrementalAlterConfigsResponse]:
    request = incremental.IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    return incremental_alter_configs(request, base, CONFIG)


def change_all(of: str, *, kind: int = TOPIC, **values: str | None) -> Change[AlterConfigsResponse]:
    configs = [plain.AlterableConfig(name=name.replace("_", "."), value=value) for name, value in values.items()]
    resources = [plain.AlterConfigsResource(resource_type=kind, resource_name=of, configs=configs)]
    return alter_configs(plain.AlterConfigsRequest(resources=resources), BEFORE, CONFIG)


def after(change: Change[AlterConfigsResponse] | Change[IncrementalAlterConfigsResponse]) -> dict[str, str]:
    return dict(image_of(change.records, base=BEFORE).config(TOPIC, "t"))


def outcome(
    change: Change[AlterConfigsResponse] | Change[IncrementalAlterConfigsResponse],
) -> tuple[ErrorCode, str | None]:
    (response,) = change.reply.responses
    return ErrorCode(response.error_code), response.error_message


def test_one_value_is_set_and_the_others_stay() -> None:
    change = change_some(resource("t", ("segment.ms", SET, "9")))

    assert (ErrorCode.NONE, None) == outcome(change)
    assert {"retention.ms": "5", "segment.ms": "9"} == after(change)


def test_all_values_are_replaced() -> None:
    change = change_all("t", segment_ms="9")

    assert (ErrorCode.NONE, None) == outcome(change)
    assert {"segment.ms": "9"} == after(change)


def test_a_value_is_deleted() -> None:
    assert {} == after(change_some(resource("t", ("retention.ms", DELETE, "whatever"))))
    assert [] == change_some(resource("t", ("nope", DELETE, None))).records


def test_what_stays_the_same_is_not_written() -> None:
    assert [] == change_some(resource("t", ("retention.ms", SET, "5"))).records
    assert [] == change_all("t", retention_ms="5").records


@pytest.mark.parametrize(
    ("before", "step", "value"),
    [
        (None, ("cleanup.policy", APPEND, "compact"), "delete,compact"),
        ("compact", ("cleanup.policy", APPEND, "compact"), "compact"),
        ("compact", ("cleanup.policy", APPEND, "delete"), "compact,delete"),
        ("compact,delete", ("cleanup.policy", SUBTRACT, "delete"), "compact"),
        ("compact", ("cleanup.policy", SUBTRACT, "compact"), ""),
        (None, ("cleanup.policy", SUBTRACT, "delete"), ""),
        ("compact", ("cleanup.policy", SUBTRACT, "delete"), "compact"),
    ],
)
def test_lists_are_added_to_and_taken_from(before: str | None, step: Step, value: str) -> None:
    base = image_of(override("cleanup.policy", before, of="t"), base=BEFORE)

    change = change_some(resource("t", step), base=base)

    assert value == image_of(change.records, base=base).config(TOPIC, "t")["cleanup.policy"]


def test_validate_only_writes_nothing() -> None:
    change = change_some(resource("t", ("retention.ms", SET, "9")), validate_only=True)

    assert ((ErrorCode.NONE, None), []) == (outcome(change), change.records)


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        (
            resource("nope", ("retention.ms", SET, "1")),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "The topic 'nope' does not exist.",
        ),
        (
            resource("nope", ("retention.ms", SET, "x")),
            ErrorCode.INVALID_CONFIG,
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (
            resource("", ("retention.ms", SET, "1")),
            ErrorCode.INVALID_REQUEST,
            "Default topic resources are not allowed.",
        ),
        (resource("t", ("nope", SET, "1")), ErrorCode.INVALID_CONFIG, "Unknown topic config name: nope"),
        (
            resource("t", ("retention.ms", SET, "x")),
            ErrorCode.INVALID_CONFIG,
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (
            resource("t", ("retention.ms", SET, None)),
            ErrorCode.INVALID_REQUEST,
            "Null value not supported for : retention.ms",
        ),
        (
            resource("t", ("retention.ms", SET, "1"), ("retention.ms", DELETE, None)),
            ErrorCode.INVALID_REQUEST,
            "Error due to duplicate config keys",
        ),
        (
            resource("t", ("retention.ms", APPEND, "5")),
            ErrorCode.INVALID_CONFIG,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (resource("t", ("retention.ms", 9, "5")), ErrorCode.UNKNOWN_SERVER_ERROR, None),
        (
            resource("t", ("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")),
            ErrorCode.INVALID_CONFIG,
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
        ),
        (
            resource("t", ("remote.storage.enable", SET, "true")),
            ErrorCode.INVALID_CONFIG,
            (
                "Tiered Storage functionality is disabled in the broker. "
                "Topic cannot be configured with remote log storage."
            ),
        ),
        (
            resource("1", ("num.partitions", SET, "3"), kind=BROKER),
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs dynamically: [num.partitions]",
        ),
        (
            resource("1", ("process.roles", SET, "3"), kind=BROKER),
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs dynamically: [process.roles]",
        ),
        (
            resource("", ("message.max.bytes", SET, "-5"), kind=BROKER),
            ErrorCode.INVALID_REQUEST,
            "Invalid value -5 for configuration message.max.bytes: Value must be at least 0",
        ),
        (
            resource("", ("log.cleaner.threads", SET, "many"), kind=BROKER),
            ErrorCode.INVALID_REQUEST,
            "Invalid value many for configuration log.cleaner.threads: Not a number of type INT",
        ),
        (
            resource("", ("num.io.threads", SET, "0"), kind=BROKER),
            ErrorCode.INVALID_REQUEST,
            "Invalid value 0 for configuration num.io.threads: Value must be at least 1",
        ),
        (
            resource(
                "", ("log.cleaner.threads", SET, "2"), ("log.cleaner.dedupe.buffer.size", SET, f"{2**21}"), kind=4
            ),
            ErrorCode.INVALID_REQUEST,
            "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
        ),
        (
            resource("", ("background.threads", SET, "21"), kind=BROKER),
            ErrorCode.INVALID_REQUEST,
            (
                "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count update validation "
                "failed for background.threads=21, value should not be greater than double the current value 10 "
                "for configuration Invalid dynamic configuration"
            ),
        ),
        (
            resource("", ("consumer.session.timeout.ms", SET, "46000"), kind=GROUP),
            ErrorCode.INVALID_REQUEST,
            "Default group resources are not allowed.",
        ),
        (
            resource("g", ("consumer.session.timeout.ms", SET, "1"), kind=GROUP),
            ErrorCode.INVALID_CONFIG,
            "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive.",
        ),
        (
            resource("g", ("consumer.session.timeout.ms", SET, "x"), kind=GROUP),
            ErrorCode.INVALID_CONFIG,
            "Invalid value x for configuration consumer.session.timeout.ms: Not a number of type INT",
        ),
        (
            resource("g", ("streams.num.standby.replicas", SET, "-1"), kind=GROUP),
            ErrorCode.INVALID_CONFIG,
            "Invalid value -1 for configuration streams.num.standby.replicas: Value must be at least 0",
        ),
        (
            resource("g", ("share.isolation.level", SET, "none"), kind=GROUP),
            ErrorCode.INVALID_CONFIG,
            f"Invalid value none for configuration share.isolation.level: {ONE_OF}: read_committed, read_uncommitted",
        ),
        (
            resource("g", ("nope", SET, "1"), kind=GROUP),
            ErrorCode.INVALID_CONFIG,
            "Unknown group config name: nope",
        ),
        (resource("t", kind=0), ErrorCode.INVALID_REQUEST, "Unknown resource type 0"),
        (resource("1", kind=8), ErrorCode.INVALID_REQUEST, "Unknown resource type 8"),
    ],
)
def test_a_refused_change(asked: incremental.AlterConfigsResource, error: ErrorCode, message: str | None) -> None:
    change = change_some(asked)

    assert (error, message) == outcome(change)
    assert [] == change.records


def test_a_plain_change_has_no_nulls() -> None:
    assert (ErrorCode.INVALID_REQUEST, "Null value not supported for : retention.ms") == outcome(
        change_all("t", retention_ms=None)
    )


def test_a_resource_that_comes_twice_is_refused_and_the_others_are_not() -> None:
    change = change_some(
        resource("t", ("retention.ms", SET, "1")), resource("t"), resource("u", ("retention.ms", SET, "1"))
    )

    assert [42, 42, 0] == [response.error_code for response in change.reply.responses]
    assert {"retention.ms": "5"} == after(change)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("1", "message.max.bytes", "100"),
        ("", "log.retention.ms", "100"),
        ("", "log.cleaner.threads", "2"),
        ("1", "plug.in.key", "anything"),
        ("g", "consumer.session.timeout.ms", "46000"),
    ],
)
def test_other_resources(name: str, key: str, value: str) -> None:
    kind = GROUP if name == "g" else BROKER

    change = change_some(resource(name, (key, SET, value), kind=kind))

    assert (ErrorCode.NONE, None) == outcome(change)
    assert {key: value} == image_of(change.records, base=BEFORE).config(kind, name)


def test_a_broker_answers_for_itself() -> None:
    assert misdirected(BROKER, "1", 1) is None
    assert misdirected(BROKER, "", 1) is None
    assert misdirected(TOPIC, "x", 1) is None
    other, nobody = misdirected(BROKER, "9", 1), misdirected(BROKER, "x", 1)
    assert "Unexpected broker id, expected 1, but received 9" == (other and other.message)
    assert "Node id must be an integer, but it is: x" == (nobody and nobody.message)
