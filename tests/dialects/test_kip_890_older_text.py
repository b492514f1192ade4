"""The dialect kip-890-older-text: what the older page of KIP-890 says otherwise than the page of today."""

from __future__ import annotations

from msgspec.structs import replace
from tests.kips.helpers import COMMIT, OK, Cluster, P, Producer, Style

from odradek.releases.dialects.kip_890_older_text.tables import decode
from odradek.releases.dialects.load import load
from odradek.txn.entry import Entry, encode_entry
from odradek.txn.states import TxnState
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.api_versions_request import ApiVersionsRequest
from odradek.wire.messages.transaction_log_value import TransactionLogValue
from odradek.wire.registry import ApiKey

TEXT = load("kip-890-older-text")
NEW = Style("older-text-new", produce=11, end=4, offsets=4, add=None, init=4)
OLD = Style("older-text-old", produce=10, end=3, offsets=3, add=3, init=4)
NOTHING: tuple[int, int, int, int, list[tuple[int, bytes]]] = (-1, -1, 0, -1, [])


def started(style: Style) -> tuple[Cluster, Producer]:
    cluster = Cluster(2, dialect=TEXT)
    return cluster, Producer.started(cluster, style)


def values(cluster: Cluster) -> list[TransactionLogValue]:
    return [each.value for each in cluster.transaction_log("x") if each.value is not None]


def tags(value: TransactionLogValue) -> tuple[int, int, int, int, list[tuple[int, bytes]]]:
    return (
        value.previous_producer_id,
        value.next_producer_id,
        value.client_transaction_version,
        value.next_producer_epoch,
        value.unknown_tagged_fields,
    )


def test_only_what_the_page_names_has_new_versions() -> None:
    """Public Interfaces: Produce and TxnOffsetCommit, and the responses that are printed."""
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    told = {each.api_key: each.max_version for each in started(NEW)[0].ask(1, request, 4).api_keys}
    newest = {
        ApiKey.FIND_COORDINATOR: 4,
        ApiKey.INIT_PRODUCER_ID: 4,
        ApiKey.PRODUCE: 11,
        ApiKey.ADD_PARTITIONS_TO_TXN: 4,
        ApiKey.ADD_OFFSETS_TO_TXN: 3,
        ApiKey.TXN_OFFSET_COMMIT: 4,
        ApiKey.END_TXN: 4,
    }
    assert newest == {key: told[key] for key in newest}


def test_the_log_has_no_client_version() -> None:
    """TransactionLogValue: two tags, previous and next id."""
    for style in (OLD, NEW):
        cluster, producer = started(style)
        producer.transact(P)
        assert {0} == {value.client_transaction_version for value in values(cluster)}
        assert all(value.unknown_tagged_fields == [] for value in values(cluster))


def test_the_previous_id_tells_who_is_new() -> None:
    """PREPARE and COMPLETE: "We use this field to signify that a new client + new server set the field"."""
    for style in (OLD, NEW):
        cluster, producer = started(style)
        x = producer.pair[0]
        producer.transact(P)
        expected = x if style is NEW else -1
        assert [expected, expected] == [value.previous_producer_id for value in values(cluster)[-2:]]


def test_tags_are_cleared_after_the_end() -> None:
    """Past Prepare and Complete there are none: neither in the next transaction, nor after an InitProducerId."""
    cluster, producer = started(NEW)
    producer.transact(P)
    assert OK is producer.send(P)
    assert NOTHING == tags(values(cluster)[-1])
    assert OK is producer.commit()
    assert OK is producer.init()
    assert NOTHING == tags(values(cluster)[-1])


def test_a_loaded_end_knows_the_last_epoch() -> None:
    """NOTE: with the previous id the last id and epoch are populated: a KIP-360 retry is told by them."""
    cluster, producer = started(NEW)
    before = producer.pair
    producer.transact(P)
    cluster.move(cluster.log_of("x"))
    assert (OK, producer.pair) == producer.end(COMMIT, pair=before)
    assert (OK, producer.pair) == producer.init_answer(before)


def test_the_end_of_an_older_client_is_no_bump() -> None:
    """Chosen: without a previous id the epoch is the older client's own, so that the one below learns nothing."""
    cluster, producer = started(OLD)
    former = producer.pair
    assert OK is producer.init()
    producer.begin(P)
    assert OK is producer.send(P)
    assert OK is producer.commit()
    cluster.move(cluster.log_of("x"))
    assert (ErrorCode.PRODUCER_FENCED, None) == producer.end(COMMIT, pair=former, version=4)


def test_a_bump_is_not_remembered_over_a_failover() -> None:
    """Clearing the tags forgets KIP-360's last epoch; until then the retry is answered."""
    cluster, producer = started(NEW)
    before = producer.pair
    error, bumped = producer.init_answer(before)
    assert (OK, bumped) == (error, producer.init_answer(before)[1])
    cluster.move(cluster.log_of("x"))
    assert (ErrorCode.PRODUCER_FENCED, None) == producer.init_answer(before)


def test_a_log_of_kafka_is_misread() -> None:
    """What the text gets wrong: Kafka 4.4 writes the previous id for old clients too, and they seem new."""
    written_by_kafka = Entry(
        transactional_id="x",
        producer_id=7,
        producer_epoch=5,
        timeout_ms=60_000,
        state=TxnState.COMPLETE_COMMIT,
        last_update_timestamp=1,
        start_timestamp=1,
        previous_producer_id=7,
    )
    read = decode("x", encode_entry(written_by_kafka, 1))
    assert replace(written_by_kafka, client_transaction_version=2, last_producer_epoch=4) == read
