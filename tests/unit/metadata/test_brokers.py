"""Brokers that come and go, and what becomes of their partitions."""

from __future__ import annotations

import pytest
from msgspec import Struct
from msgspec.structs import replace
from tests.unit.metadata.helpers import CLUSTER, broker, image_of, level, topic

from odradek.metadata.brokers import fence, may_lead, move_leader, register, registration, unfence
from odradek.metadata.change import Failure
from odradek.metadata.image import MetadataImage
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.broker_registration_request import BrokerRegistrationRequest

LEVELS = level(metadata_version=33, transaction_version=2)


def three() -> MetadataImage:
    return image_of(LEVELS, broker(1), broker(2), broker(3), topic("t", [1, 2, 3], [2, 3], [3], [1]))


def states(image: MetadataImage) -> list[tuple[int, int, tuple[int, ...]]]:
    """Leader, leader epoch and ISR of each partition."""
    return [(p.leader, p.leader_epoch, p.isr) for p in image.topics["t"].partitions.values()]


def fenced(image: MetadataImage, broker_id: int) -> MetadataImage:
    return image_of(fence(image, image.brokers[broker_id]), base=image)


def unfenced(image: MetadataImage, broker_id: int) -> MetadataImage:
    return image_of(unfence(image, image.brokers[broker_id]), base=image)


def test_the_partitions_of_a_fenced_broker_go_to_its_replicas() -> None:
    image = fenced(three(), 1)

    assert image.brokers[1].fenced
    # The last replica is in sync no longer, but eligible; without its broker there is no leader.
    assert [(2, 1, (2, 3)), (2, 0, (2, 3)), (3, 0, (3,)), (-1, 1, ())] == states(image)
    last = image.topics["t"].partitions[3]
    assert ((1,), (1,)) == (last.eligible_replicas, last.last_known_eligible)


def test_a_broker_that_comes_back_is_in_sync_at_once() -> None:
    image = unfenced(fenced(three(), 1), 1)

    assert not image.brokers[1].fenced
    assert [(2, 1, (1, 2, 3)), (2, 0, (2, 3)), (3, 0, (3,)), (1, 2, (1,))] == states(image)


def test_all_brokers_gone_and_one_back() -> None:
    image = three()
    for broker_id in (1, 2, 3):
        image = fenced(image, broker_id)

    assert [-1] * 4 == [leader for leader, _, _ in states(image)]
    back = unfenced(image, 3)
    assert [3, 3, 3, -1] == [leader for leader, _, _ in states(back)]
    assert [(3,), (3,), (3,), ()] == [isr for _, _, isr in states(back)]
    # Not a replica that may lack what the last one wrote.
    assert [-1, -1, -1, 1] == [leader for leader, _, _ in states(unfenced(image, 1))]


def test_a_new_incarnation_is_fenced_until_it_is_let_in() -> None:
    request = registration(broker_id=1, cluster_id=CLUSTER, incarnation_id=b"n" * 16, host="new", port=1)

    records = register(request, three(), cluster_id=CLUSTER, epoch=77)

    assert not isinstance(records, Failure)
    image = image_of(records, base=three())
    assert (77, "new", True) == (image.brokers[1].epoch, image.brokers[1].host, image.brokers[1].fenced)
    assert [2, 2, 3, -1] == [leader for leader, _, _ in states(image)]


def attempt(**changes: object) -> BrokerRegistrationRequest:
    request = registration(broker_id=1, cluster_id=CLUSTER, incarnation_id=b"n" * 16, host="h", port=1)
    for name, value in changes.items():
        setattr(request, name, value)
    return request


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (attempt(cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (attempt(features=[]), ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_refused_registration(request_: BrokerRegistrationRequest, error: ErrorCode) -> None:
    outcome = register(request_, three(), cluster_id=CLUSTER, epoch=77)

    assert Failure(error) == outcome


def test_the_same_incarnation_may_register_again() -> None:
    outcome = register(attempt(incarnation_id=bytes([1]) * 16), three(), cluster_id=CLUSTER, epoch=77)

    assert not isinstance(outcome, Failure)


@pytest.mark.parametrize(
    ("index", "to", "replicas"),
    [(0, 2, (1, 2, 3)), (0, 1, (1, 2, 3)), (3, 2, (2,)), (1, 1, (1, 3))],
)
def test_a_leader_moves_in_a_new_epoch(index: int, to: int, replicas: tuple[int, ...]) -> None:
    before = three()
    old = before.topics["t"]

    record: Struct = move_leader(old, old.partitions[index], to, before)

    moved = image_of(record, base=before).topics["t"].partitions[index]
    assert (to, 1, replicas) == (moved.leader, moved.leader_epoch, moved.replicas)
    assert set(replicas) == set(moved.isr)


@pytest.mark.parametrize(
    ("broker", "leader", "clean"),
    [(1, 1, True), (2, 1, True), (3, 1, False), (9, 1, True), (2, -1, True), (3, -1, False), (9, -1, False)],
)
def test_who_may_lead_without_a_loss(broker: int, leader: int, clean: bool) -> None:
    """1 is in sync, 2 is eligible, 3 lags, and 9 has no replica: somebody has to give it everything."""
    there = replace(three().topics["t"].partitions[0], leader=leader, isr=(1,), eligible_replicas=(2,))

    assert clean is may_lead(there, broker)


def test_an_eligible_replica_that_leads_is_in_sync() -> None:
    before = three()
    topic = before.topics["t"]
    waiting = replace(topic.partitions[0], leader=-1, isr=(), eligible_replicas=(2, 3), last_known_eligible=(1,))

    record = move_leader(topic, waiting, 2, before)

    after = [record.isr, record.eligible_leader_replicas, record.last_known_elr]
    assert [[2], [3], []] == after
