"""What is supported, and in which version records are written."""

import pytest
from tests.unit.metadata.helpers import image_of, level

from odradek.metadata.features import record_version, unsupported_levels
from odradek.releases.table import WIDEST
from odradek.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from odradek.wire.messages.partition_record import PartitionRecord
from odradek.wire.messages.register_broker_record import RegisterBrokerRecord
from odradek.wire.messages.topic_record import TopicRecord

TV, MV, GV = "transaction.version", "metadata.version", "group.version"


def test_who_may_join() -> None:
    image = image_of(level(metadata_version=33, transaction_version=2))

    assert unsupported_levels(image, WIDEST.features) is None
    assert unsupported_levels(image, {**WIDEST.features, TV: (0, 1)}) is not None
    assert unsupported_levels(image, {MV: (7, 33), GV: (0, 1)}) is not None


@pytest.mark.parametrize(
    ("record", "versions"),
    [
        (TopicRecord(), {7: 0, 33: 0}),
        (PartitionRecord(), {7: 0, 16: 0, 17: 1, 22: 1, 23: 2, 33: 2}),
        (RegisterBrokerRecord(), {7: 1, 8: 2, 16: 2, 17: 3, 29: 3, 30: 4, 33: 4}),
        (BrokerRegistrationChangeRecord(fenced=1), {7: 0, 17: 0, 33: 0}),
        (BrokerRegistrationChangeRecord(in_controlled_shutdown=1), {7: 1, 17: 1, 33: 1}),
        (BrokerRegistrationChangeRecord(log_dirs=[bytes(16)]), {17: 2, 30: 3}),
    ],
)
def test_records_are_written_as_the_metadata_version_says(record: object, versions: dict[int, int]) -> None:
    assert versions == {at: record_version(record, at) for at in versions}  # type: ignore[arg-type]
