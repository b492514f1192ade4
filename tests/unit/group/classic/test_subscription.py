from __future__ import annotations

from tests.unit.group.desk import subscription

from odradek.group.classic.consumer_protocol import subscribed_topics
from odradek.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from odradek.wire.registry import encode


def test_topics_of_all_members_together() -> None:
    assert frozenset({"a", "b", "c"}) == subscribed_topics([subscription(["a", "b"]), subscription(["b", "c"])])


def test_later_versions_begin_with_the_same_fields() -> None:
    later = ConsumerProtocolSubscription(topics=["a"], generation_id=7, rack_id="r")
    assert frozenset({"a"}) == subscribed_topics([b"\x00\x03" + encode(later, 3)])


def test_metadata_that_is_no_subscription_says_nothing() -> None:
    assert subscribed_topics([b""]) is None
    assert subscribed_topics([subscription(["a"]), b"\x00\x00\x7f\xff\xff\xff"]) is None
