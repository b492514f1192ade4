"""What clients are asked for, when they may come again, and how long they are known (KIP-714)."""

from __future__ import annotations

import pytest

from odradek.metadata.client_metrics import Subscription
from odradek.telemetry import instances as module
from odradek.telemetry.instances import Client, Instance, Instances, Wanted, subscription_id, wanted_of
from odradek.wire.errors import ErrorCode
from odradek.wire.patterns import InvalidPattern, matcher

ID = bytes.fromhex("1000000000000000000000000000aa01")
CLIENT = Client(ID, {"client_id": "a", "client_software_name": "tests"})


def subscription(*metrics: str, interval_ms: int = 1000, **patterns: str) -> Subscription:
    compiled = {}
    for selector, pattern in patterns.items():
        found = matcher(pattern)
        assert not isinstance(found, InvalidPattern)
        compiled[selector] = found
    return Subscription(metrics, interval_ms, compiled)


def instance(interval_ms: int = 1000, client: Client = CLIENT, conn: int = 1) -> Instance:
    return Instance(client, Wanted(("m",), interval_ms), 0, conn)


def numbered(number: int) -> Client:
    return Client(number.to_bytes(16, "big"), {})


@pytest.mark.parametrize(
    ("subscriptions", "metrics", "interval_ms"),
    [
        ([], (), 300_000),
        ([subscription("b", "a"), subscription("b", interval_ms=500)], ("a", "b"), 500),
        ([subscription("a"), subscription("*", interval_ms=2000)], ("*",), 1000),
        ([subscription("a", client_id="a", client_software_name="te.*")], ("a",), 1000),
        ([subscription("a", client_id="a", client_software_name="te")], (), 300_000),
        ([subscription(interval_ms=700)], (), 700),
    ],
)
def test_subscriptions_are_joined(
    subscriptions: list[Subscription], metrics: tuple[str, ...], interval_ms: int
) -> None:
    assert wanted_of(CLIENT, subscriptions) == Wanted(metrics, interval_ms)


@pytest.mark.parametrize(
    ("instance_id", "wanted", "expected"),
    [
        (ID, Wanted((), 300_000), -993529377),
        (bytes(15) + b"\x01", Wanted((), 300_000), -725132321),
        (bytes.fromhex("fedcba98765432100123456789abcdef"), Wanted((), 300_000), -725132322),
        (ID, Wanted(("org.apache.kafka.producer.",), 5000), 1108090507),
        (ID, Wanted(("*",), 100), 631133856),
    ],
)
def test_the_id_of_a_subscription_is_kafka_s(instance_id: bytes, wanted: Wanted, expected: int) -> None:
    """What Apache Kafka 4.4.0 answered."""
    assert expected == subscription_id(wanted, instance_id)


def test_the_id_of_a_subscription_is_another_for_another_client_and_interval() -> None:
    wanted = Wanted(("m",), 1000)
    ids = {
        subscription_id(wanted, ID),
        subscription_id(wanted, bytes(16)),
        subscription_id(Wanted(("m",), 2000), ID),
        subscription_id(Wanted(("n",), 1000), ID),
    }
    assert 4 == len(ids)
    assert all(-(2**31) <= each < 2**31 for each in ids)


def test_a_push_may_follow_each_interval_and_each_question() -> None:
    known = instance()
    assert known.may_ask(0)
    assert known.may_push(1)
    assert not known.may_push(1000)
    assert known.may_push(1001)
    assert not known.may_ask(2000)
    assert known.may_ask(2001)
    assert known.may_push(2002)


@pytest.mark.parametrize(
    ("error", "may"),
    [
        (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, True),
        (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, True),
        (ErrorCode.TELEMETRY_TOO_LARGE, False),
        (ErrorCode.NONE, False),
    ],
)
def test_who_was_refused_may_ask_at_once_and_not_push(error: ErrorCode, may: bool) -> None:
    known = instance()
    assert known.may_push(0)
    known.last_error = error
    assert may == known.may_ask(1)
    assert not known.may_push(2)


@pytest.mark.parametrize(("interval_ms", "silence_ms"), [(100, 60_000), (20_001, 60_003), (300_000, 900_000)])
def test_a_client_may_be_silent_for_three_intervals_or_a_minute(interval_ms: int, silence_ms: int) -> None:
    assert silence_ms == instance(interval_ms).silence_ms_max


def test_a_client_is_forgotten_with_its_connection() -> None:
    kept = Instances()
    kept.put(instance(conn=1))
    kept.put(instance(client=numbered(2), conn=2))
    assert ID == kept.disconnected(1)
    assert kept.disconnected(1) is None
    assert kept.get(ID) is None
    assert 1 == len(kept)


def test_the_client_that_was_silent_longest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INSTANCES_MAX", 2)
    kept = Instances()
    for number in (1, 2):
        kept.put(instance(client=numbered(number), conn=number))
    assert kept.get(numbered(1).instance_id) is not None
    assert [numbered(2).instance_id] == kept.put(instance(client=numbered(3), conn=3))
    assert 2 == len(kept)
    assert kept.disconnected(2) is None
