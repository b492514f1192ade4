"""The stories with the Java client and franz-go, as far as the scenarios of their programs go through them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.clients.driver import Failure, Result, play
from tests.clients.lacking import with_toolchains

from odradek.testing import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.client]

FAMILIES = ("java", "franz-go")
SURVIVED = (
    "end-txn-lost-in-ongoing",
    "end-txn-answer-lost-in-prepare",
    "end-txn-answer-lost-in-complete",
    "coordinator-moves-in-prepare",
    "concurrent-transactions-after-commit",
    "verification-times-out",
    "coordinator-loading",
    "leader-moves-with-open-transaction",
    "broker-restarts-with-pending-markers",
)
LOST = [
    *((family, story) for family in FAMILIES for story in ("abortable-error-on-produce", "abortable-error-on-end")),
    ("franz-go", "kip-360-recovery"),
]


def played(cluster: Cluster, family: str, scenario: str, topic: str = "played", **options: Any) -> Result:
    with with_toolchains(family):
        bootstrap = cluster.bootstrap.split(",")[0]
        return play(family, scenario, bootstrap, topic=topic, transactional_id="till-1", timeout=120, **options)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("story", SURVIVED)
def test_the_application_sees_nothing_of_it(family: str, story: str) -> None:
    with Cluster(story=story) as cluster:
        assert played(cluster, family, "transactions", transactions=4).counts["committed_records"] == 30


@pytest.mark.parametrize("family", FAMILIES)
def test_epochs_run_out(family: str) -> None:
    with Cluster(story="epoch-overflow") as cluster:
        with pytest.raises(Failure):  # its epoch is behind that of its coordinator
            played(cluster, family, "transactions", "first", transactions=4)
        assert played(cluster, family, "transactions", transactions=4).counts["committed_records"] == 30


@pytest.mark.parametrize("family", FAMILIES)
def test_the_first_instance_is_fenced(family: str) -> None:
    with Cluster(story="fenced-by-a-second-instance") as cluster:
        assert "Fenced" in str(played(cluster, family, "zombie").counts).replace("FENCED", "Fenced")


@pytest.mark.parametrize(("family", "story"), LOST)
def test_a_transaction_is_lost_and_its_producer_goes_on(family: str, story: str) -> None:
    with Cluster(story=story) as cluster:
        assert played(cluster, family, "lost").counts["refused"]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_transaction_lives_on_through_a_downgrade_no_longer(family: str) -> None:
    with Cluster(story="downgrade-under-way") as cluster, pytest.raises(Failure) as failed:
        played(cluster, family, "transactions", transactions=4)
    assert "The version of API is not supported" in str(failed.value.error)


def test_offsets_are_waited_for() -> None:
    with Cluster(story="unstable-offset-commit") as cluster:
        assert played(cluster, "java", "txn-offsets", group="kitchen").counts["transactions"] > 1


def test_the_producer_of_another_epoch_goes_on() -> None:
    """The Java client aborts nothing: it bumps its epoch by itself, and sends the batch again."""
    with Cluster(story="kip-360-recovery") as cluster:
        assert played(cluster, "java", "transactions", transactions=4).counts["committed_records"] == 30


def test_a_transaction_that_has_lasted_too_long_is_refused() -> None:
    with Cluster(story="transaction-times-out-during-a-produce") as cluster:
        assert "Epoch" in str(played(cluster, "java", "txn-timeout").counts)
