"""KIP-890, "Compatibility, Deprecation, and Migration Plan": new and old clients against brokers of older releases.

A client speaks to each broker in the highest versions that both have.
"""

from __future__ import annotations

import pytest
from tests.kips.helpers import ABORT, COMMIT, OK, OLD_STYLES, Cluster, P, Producer, Q, Style, finished, refusal_of
from tests.kips.styles import NEW_STYLES

from odradek.releases.table import RELEASES
from odradek.wire.errors import ErrorCode
from odradek.wire.registry import ApiKey

STYLES = (*OLD_STYLES, *NEW_STYLES)


def speaks(release: str, style: Style) -> bool:
    """Whether a broker of the release takes all that a client of this style sends."""
    apis = RELEASES[release].apis
    assert apis is not None
    return style.produce <= apis["PRODUCE"][1] and style.offsets <= apis["TXN_OFFSET_COMMIT"][1]


def levels(release: str) -> tuple[int, ...]:
    """The levels of transaction.version that a release has."""
    low, high = RELEASES[release].features.get("transaction.version", (0, 0))
    return tuple(range(low, high + 1))


PAIRS = [
    pytest.param(release, level, style, id=f"{release}@{level}-{style}")
    for release in RELEASES
    for level in levels(release)
    for style in STYLES
    if speaks(release, style) and (level > 0 or style.add is not None)
]
every_pair = pytest.mark.parametrize(("release", "level", "style"), PAIRS)


def old_clients_of(*releases: str) -> pytest.MarkDecorator:
    """Every client that adds its partitions itself, with each of these releases."""
    return pytest.mark.parametrize(
        ("release", "style"),
        [
            pytest.param(release, style, id=f"{release}-{style}")
            for release in releases
            for style in OLD_STYLES
            if speaks(release, style)
        ],
    )


def cluster_of(release: str, level: int = 0, *, brokers: int = 1) -> Cluster:
    return Cluster(level, brokers=brokers, odradek_as_kafka=release)


@every_pair
def test_every_client_has_its_transactions_with_every_broker(release: str, level: int, style: Style) -> None:
    """New Clients, Old Clients: whatever the release, commits are seen and aborts are not."""
    cluster = cluster_of(release, level, brokers=2)
    producer = Producer.started(cluster, style)
    producer.transact(P, b"first")
    producer.transact(P, b"aborted", outcome=ABORT)
    producer.transact(P, b"second")
    assert [b"first", b"second"] == cluster.consumed(P)


@every_pair
def test_only_the_end_of_a_new_client_bumps_the_epoch(release: str, level: int, style: Style) -> None:
    """Bump Epoch on Each Transaction for New Clients: brokers without EndTxn v5 never do."""
    producer = Producer.started(cluster_of(release, level), style)
    producer.transact(P, b"v")
    assert producer.epoch == (1 if style.end >= 5 else 0)


@old_clients_of("2.8", "3.3")
def test_a_late_message_hangs(release: str, style: Style) -> None:
    """Motivation: before part 1 nobody asks the coordinator, and the last stable offset stands still for ever."""
    cluster = cluster_of(release)
    producer, sent = finished(cluster, style)
    assert OK == sent.result().error_code
    cluster.world.advance(producer.timeout_ms + 60_000)
    assert (2, 3) == cluster.stable(P)
    assert ErrorCode.INVALID_TXN_STATE is producer.end(COMMIT)[0]


@old_clients_of("3.6", "3.9", "4.0", "4.3", "4.4")
def test_a_late_message_is_refused(release: str, style: Style) -> None:
    """Ensure Ongoing Transaction for Older Clients: from 3.6 on, in the words that the client knows."""
    cluster = cluster_of(release)
    _, sent = finished(cluster, style)
    assert refusal_of(style) == sent.result().error_code
    assert (2, 2) == cluster.stable(P)


@old_clients_of("2.8", "3.3", "3.6")
def test_late_offsets_hang(release: str, style: Style) -> None:
    """The same with the offsets of a group, which 3.6 does not verify yet."""
    cluster = cluster_of(release)
    producer = Producer.started(cluster, style)
    assert OK is producer.commit_offset(5)
    assert ErrorCode.UNSTABLE_OFFSET_COMMIT is cluster.offset(stable=True)


@old_clients_of("3.9", "4.0", "4.3", "4.4")
def test_late_offsets_are_refused(release: str, style: Style) -> None:
    """Old Clients: TxnOffsetCommit is verified too."""
    cluster = cluster_of(release)
    producer = Producer.started(cluster, style)
    known = ErrorCode.TRANSACTION_ABORTABLE if style.offsets >= 4 else ErrorCode.INVALID_TXN_STATE
    assert known is producer.commit_offset(5)
    assert -1 == cluster.offset(stable=True)


@old_clients_of("2.8", "3.3")
def test_no_broker_asks_another(release: str, style: Style) -> None:
    """Old Servers: AddPartitionsToTxn comes from clients only."""
    cluster = cluster_of(release, brokers=2)
    asked = cluster.watch(ApiKey.ADD_PARTITIONS_TO_TXN)
    Producer.started(cluster, style).transact(Q, b"v")
    assert [False] == [call.is_broker for call in asked]


@pytest.mark.parametrize(
    ("release", "verification", "markers"),
    [("3.6", 4, 1), ("3.9", 5, 1), ("4.0", 5, 1), ("4.3", 5, 2), ("4.4", 5, 2)],
)
def test_brokers_speak_the_versions_of_their_release(release: str, verification: int, markers: int) -> None:
    """Public Interfaces: what a broker asks of another is never newer than its release."""
    cluster = cluster_of(release, brokers=2)
    asked, written = cluster.watch(ApiKey.ADD_PARTITIONS_TO_TXN), cluster.watch(ApiKey.WRITE_TXN_MARKERS)
    Producer.started(cluster, OLD_STYLES[0]).transact(P, b"v")
    assert {verification} == {call.version for call in asked if call.is_broker}
    assert {markers} == {call.version for call in written}
