"""An image survives being written as records and read again."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from tests.unit.metadata.helpers import broker, image_of, level, override, topic

from odradek.metadata.loader import MetadataLoader
from odradek.metadata.snapshot import snapshot_records
from odradek.wire.messages.feature_level_record import FeatureLevelRecord
from odradek.wire.messages.producer_ids_record import ProducerIdsRecord

RECORDS = st.one_of(
    st.builds(broker, st.integers(1, 3), fenced=st.booleans(), rack=st.sampled_from([None, "r"])).map(lambda r: [r]),
    st.builds(lambda name, lists: topic(name, *lists), st.sampled_from("ab"), st.just(([1, 2], [2, 1]))),
    st.builds(override, st.sampled_from("kl"), st.sampled_from("vw"), of=st.sampled_from(["a", ""])).map(lambda r: [r]),
    st.integers(0, 2).map(lambda value: level(transaction_version=value, metadata_version=33)),
    st.integers(1, 3).map(lambda n: [ProducerIdsRecord(broker_id=1, next_producer_id=1000 * n)]),
)


@given(st.lists(RECORDS, max_size=8))
def test_records_of_an_image_make_the_image(groups: list[list[Struct]]) -> None:
    image = image_of(*groups)

    again = MetadataLoader().load_snapshot(snapshot_records(image), offset=image.offset, epoch=image.epoch)

    assert image == again


def test_the_metadata_version_comes_first() -> None:
    image = image_of(level(group_version=1, transaction_version=2, metadata_version=33))

    first = next(snapshot_records(image))

    assert FeatureLevelRecord(name="metadata.version", feature_level=33) == first
