"""What each record does to an image."""

import pytest
from tests.unit.metadata.helpers import broker, image_of, level, override, topic, topic_id

from odradek.metadata.image import EMPTY
from odradek.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from odradek.wire.messages.clear_elr_record import ClearElrRecord
from odradek.wire.messages.fence_broker_record import FenceBrokerRecord
from odradek.wire.messages.partition_change_record import PartitionChangeRecord
from odradek.wire.messages.producer_ids_record import ProducerIdsRecord
from odradek.wire.messages.remove_topic_record import RemoveTopicRecord
from odradek.wire.messages.unfence_broker_record import UnfenceBrokerRecord
from odradek.wire.messages.unregister_broker_record import UnregisterBrokerRecord


def test_a_named_leader_moves_both_epochs() -> None:
    record = PartitionChangeRecord(topic_id=topic_id("a"), partition_id=0, leader=2)

    partition = image_of(topic("a", [1, 2]), record).topics["a"].partitions[0]

    assert (2, 1, 1) == (partition.leader, partition.leader_epoch, partition.partition_epoch)
    assert ((1, 2), (1, 2)) == (partition.replicas, partition.isr)


def test_the_same_leader_named_again_moves_the_leader_epoch() -> None:
    record = PartitionChangeRecord(topic_id=topic_id("a"), partition_id=0, leader=1)

    assert 1 == image_of(topic("a"), record).topics["a"].partitions[0].leader_epoch


def test_a_change_without_a_leader_moves_only_the_partition_epoch() -> None:
    record = PartitionChangeRecord(topic_id=topic_id("a"), partition_id=0, isr=[2], replicas=[2, 1])

    partition = image_of(topic("a", [1, 2]), record).topics["a"].partitions[0]

    assert (1, 0, 1) == (partition.leader, partition.leader_epoch, partition.partition_epoch)
    assert ((2, 1), (2,)) == (partition.replicas, partition.isr)


@pytest.mark.parametrize(("name", "cleared"), [("a", "a"), ("", "ab"), ("c", "")])
def test_nobody_is_eligible_any_more(name: str, cleared: str) -> None:
    before = image_of(
        *(topic(each, [1, 2]) for each in "ab"),
        *(
            PartitionChangeRecord(
                topic_id=topic_id(each), partition_id=0, isr=[1], eligible_leader_replicas=[2], last_known_elr=[1]
            )
            for each in "ab"
        ),
    )

    after = image_of(ClearElrRecord(topic_name=name), base=before)

    for each in "ab":
        partition = after.topics[each].partitions[0]
        wanted = ((), ()) if each in cleared else ((2,), (1,))
        assert wanted == (partition.eligible_replicas, partition.last_known_eligible)
        assert before.topics[each].partitions[0].partition_epoch == partition.partition_epoch
    assert [each for each in "ab" if after.topics[each] is not before.topics[each]] == list(cleared)


def test_a_change_to_what_is_not_there_changes_nothing() -> None:
    record = PartitionChangeRecord(topic_id=topic_id("a"), partition_id=7, leader=2)

    assert image_of(topic("a")).topics == image_of(topic("a"), record).topics
    assert {} == image_of(record).topics


def test_a_removed_topic_takes_its_configs_along() -> None:
    image = image_of(topic("a"), topic("b"), override("k", "v", of="a"), RemoveTopicRecord(topic_id=topic_id("a")))

    assert (["b"], [topic_id("b")], {}) == (list(image.topics), list(image.topics_by_id), image.configs)


def test_a_name_can_be_used_again() -> None:
    first = image_of(topic("a", [1], [1]))
    second = topic("a")
    second[0].topic_id = second[1].topic_id = bytes(range(16))  # type: ignore[attr-defined]

    image = image_of(RemoveTopicRecord(topic_id=topic_id("a")), second, base=first)

    assert [bytes(range(16))] == list(image.topics_by_id)
    assert bytes(range(16)) == image.topics["a"].id
    assert 1 == len(image.topics["a"].partitions)


def test_a_config_without_value_is_removed() -> None:
    image = image_of(override("k", "v", of="a"), override("l", "w", of="a"), override("k", None, of="a"))

    assert {(2, "a"): {"l": "w"}} == image.configs
    assert {} == image_of(override("l", None, of="a"), base=image).configs


def test_level_zero_takes_a_feature_out() -> None:
    assert {} == image_of(level(transaction_version=2), level(transaction_version=0)).features


def test_brokers_are_fenced_and_unfenced_in_two_ways() -> None:
    fence = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, fenced=1)
    unfence = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, fenced=-1)
    shutdown = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, in_controlled_shutdown=1)

    assert image_of(broker(1), fence).brokers[1].fenced
    assert not image_of(broker(1, fenced=True), unfence).brokers[1].fenced
    assert image_of(broker(1), shutdown).brokers[1].in_controlled_shutdown
    assert not image_of(broker(1), shutdown).brokers[1].fenced
    assert image_of(broker(1), FenceBrokerRecord(id=1, epoch=101)).brokers[1].fenced
    assert not image_of(broker(1, fenced=True), UnfenceBrokerRecord(id=1, epoch=101)).brokers[1].fenced
    assert {} == image_of(broker(1), UnregisterBrokerRecord(broker_id=1)).brokers
    assert {} == image_of(fence).brokers


def test_the_next_block_of_producer_ids() -> None:
    assert 3000 == image_of(ProducerIdsRecord(broker_id=1, next_producer_id=3000)).next_producer_id


def test_what_is_not_touched_is_shared() -> None:
    before = image_of(broker(1), topic("a"), topic("b"), override("k", "v", of="a"), level(group_version=1))

    after = image_of(override("k", "w", of="a"), base=before)

    assert before.topics is after.topics
    assert before.brokers is after.brokers
    assert before.features is after.features
    assert {"k": "v"} == before.configs[2, "a"]


def test_an_image_does_not_change_with_its_successor() -> None:
    before = image_of(topic("a", [1, 2]))

    after = image_of(PartitionChangeRecord(topic_id=topic_id("a"), partition_id=0, leader=2), topic("b"), base=before)

    assert 1 == before.topics["a"].partitions[0].leader
    assert ["a"] == list(before.topics)
    assert {"a", "b"} == set(after.topics)
    assert {} == EMPTY.topics
