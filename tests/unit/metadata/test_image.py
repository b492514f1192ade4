"""Looking things up in an image."""

from tests.unit.metadata.helpers import broker, image_of, level, override, topic, topic_id

from odradek.metadata.image import EMPTY


def test_the_empty_image_knows_nothing() -> None:
    assert EMPTY.topic("a") is None
    assert EMPTY.partition("a", 0) is None
    assert EMPTY.topic_by_id(bytes(16)) is None
    assert 0 == EMPTY.feature("transaction.version")
    assert {} == EMPTY.config(2, "a")
    assert not EMPTY.is_alive(1)


def test_lookups() -> None:
    image = image_of(
        broker(1),
        broker(2, fenced=True),
        topic("a", [1, 2], [2, 1]),
        level(transaction_version=2),
        override("k", "v", of="a"),
    )

    found = image.topic("a")
    assert found is not None
    assert found is image.topic_by_id(topic_id("a"))
    assert found.partitions[1] is image.partition("a", 1)
    assert image.partition("a", 2) is None
    assert 2 == found.replication_factor
    assert 2 == image.feature("transaction.version")
    assert {"k": "v"} == image.config(2, "a")
    assert image.is_alive(1)
    assert not image.is_alive(2)
    assert not image.is_alive(-1)
    assert ("host", 9001) == (image.brokers[1].host, image.brokers[1].port)
