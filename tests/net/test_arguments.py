"""What the methods of a cluster are given is checked before anything is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odradek.control.messages.state import TransactionView
from odradek.net.ports import ListenError
from odradek.testing import Cluster, RuleError, rule

Do = Callable[[Any], object]

WRONG: list[tuple[Do, type[Exception], str]] = [
    (
        lambda c: c.set_coordinator_load_ms("x"),
        TypeError,
        "milliseconds of set_coordinator_load_ms: it is a whole",
    ),
    (lambda c: c.set_coordinator_load_ms(None), TypeError, "it is a whole number, not None"),
    (lambda c: c.set_coordinator_load_ms(1.5), TypeError, "it is a whole number, not 1.5"),
    (lambda c: c.set_coordinator_load_ms(-5), ValueError, "coordinators take no -5 ms to load: give 0 or more"),
    (lambda c: c.set_coordinator_load_ms(1 << 31), ValueError, "give 0 or more, up to 2147483647"),
    (lambda c: c.set_replica_lag(1, 1 << 63), ValueError, "replicas take no 9223372036854775808 ms"),
    (lambda c: c.advertise(1, port=1, host="a b"), ValueError, "No client can connect to 'a b': a host is"),
    (lambda c: c.advertise(1, port=1, host=""), ValueError, "No client can connect to ''"),
    (
        lambda c: c.wait(rule={"name": "x"}, timeout_s=float("inf")),
        ValueError,
        "A wait takes 0 to 600 seconds, not inf",
    ),
    (
        lambda c: c.wait(rule={"name": "x"}, timeout_s=float("nan")),
        ValueError,
        "A wait takes 0 to 600 seconds, not nan",
    ),
    (lambda c: c.set_replica_lag(1, "x"), TypeError, "milliseconds of set_replica_lag: it is a whole number or None"),
    (lambda c: c.set_transaction_version("1"), TypeError, "level of set_transaction_version: it is a whole number"),
    (lambda c: c.set_transaction_version(level=True), TypeError, "it is a whole number, not True"),
    (lambda c: c.set_producer_epoch("x", 1 << 15), ValueError, "a number from 0 to 32767, not 32768"),
    (lambda c: c.set_producer_epoch("x", -1), ValueError, "a number from 0 to 32767, not -1"),
    (lambda c: c.set_producer_epoch(1, 1), TypeError, "transactional_id of set_producer_epoch: it is a text"),
    (lambda c: c.leader("t", "0"), TypeError, "partition of leader"),
    (lambda c: c.move_leader("t", 0, to="1"), TypeError, "to of move_leader: it is a whole number or None"),
    (lambda c: c.move_leader("t", 0, to=1, unclean="no"), TypeError, "unclean of move_leader: it is True or False"),
    (lambda c: c.move_group_coordinator(None), TypeError, "group_id of move_group_coordinator"),
    (lambda c: c.stop_broker("1"), TypeError, "broker of stop_broker"),
    (lambda c: c.advance(5), TypeError, "time of advance: it is a timedelta, not 5"),
    (lambda c: c.metrics("1"), TypeError, "broker of metrics"),
    (lambda c: c.advertise(1, port="x"), TypeError, "port of advertise"),
    (lambda c: c.bootstrap_of(5), TypeError, "listener of bootstrap_of"),
    (lambda c: c.remove_rule("late"), TypeError, "armed of remove_rule: it is what add_rule gave back"),
    (lambda c: c.release(c.add_rule(rule("PRODUCE", hold=True)), -1), ValueError, "cannot release -1 requests"),
    (lambda c: c.wait(rule="late"), TypeError, "rule of wait: it is a mapping or None"),
    (lambda c: c.wait(timeout_s="1"), TypeError, "timeout_s of wait: it is a number"),
    (lambda c: c.wait_for(True), TypeError, "condition of wait_for: it is a function"),
    (lambda c: c.wait(), ValueError, "nothing to wait for: name a rule, a transaction, a partition, a group or tele"),
    (
        lambda c: c.wait(transaction={"id": "x", "state": "Bogus"}),
        ValueError,
        "no state Bogus of a transaction: there is Empty, .*, none.",
    ),
    (
        lambda c: c.wait(group={"id": "x", "state": "stable"}),
        ValueError,
        "no state stable of a group: did you mean Stable",
    ),
    (
        lambda c: c.add_rule(rule("PRODUCE", then=[{"move_leader": 9}])),
        RuleError,
        "There is no broker 9: there is 1, 2.",
    ),
    (
        lambda c: c.add_rule(rule("END_TXN", then=[{"move_transaction_coordinator": 9}])),
        RuleError,
        "There is no broker 9",
    ),
    (lambda c: c.add_rule(rule("PRODUCE", then=[{"restart_broker": 0}])), RuleError, "There is no broker 0"),
    (lambda c: c.add_rule(rule("PRODUCE", then=[{"stop_broker": 3}])), RuleError, "There is no broker 3"),
    (lambda c: c.add_rule(rule("PRODUCE", then=[{"start_broker": 3}])), RuleError, "There is no broker 3"),
    (lambda c: c.stop_broker(1, fence_after_ms=-1), ValueError, "0 ms or more after its crash, not -1"),
    (lambda c: c.stop_broker(1, cleanly=True, fence_after_ms=1), ValueError, "only a crash is noticed later"),
    (lambda c: rule("PRODUCE", sender="clients"), RuleError, "'clients': it is one of client, broker, any.$"),
    (lambda c: rule("PRODUCE", disconnect="now"), RuleError, "'now': it is one of before, after.$"),
    (lambda c: rule("PRODUCE", times="some", hold=True), RuleError, "'some': it is one of all.$"),
    (lambda c: rule("PRODUCE", then=[{"restart_broker": "one"}]), RuleError, "'one': it is one of asked.$"),
]


def test_what_is_wrong_is_said_in_a_sentence() -> None:
    with Cluster(brokers=2, topics=["t"]) as cluster:
        for do, error, text in WRONG:
            with pytest.raises(error, match=text):
                do(cluster)


def test_a_rule_belongs_to_its_cluster() -> None:
    """Its requests are held in the loop of that cluster, and another one must not touch them."""
    with Cluster() as cluster, Cluster() as other:
        late = other.add_rule(rule("PRODUCE", name="late", hold=True))
        for do in (cluster.release, cluster.remove_rule):
            with pytest.raises(LookupError, match="the rule late is of another cluster"):
                do(late)
        other.remove_rule(late)
        other.remove_rule(late)


@pytest.mark.parametrize(("as_kafka", "text"), [("2.8", "FEATURE|feature"), ("3.6", "Invalid update version 1")])
def test_a_level_that_an_older_release_does_not_have(as_kafka: str, text: str) -> None:
    with Cluster(as_kafka=as_kafka) as cluster, pytest.raises(ValueError, match=text):
        cluster.set_transaction_version(1)


def test_a_transaction_that_is_forgotten_is_shown_like_any_other() -> None:
    with Cluster() as cluster:
        [found] = cluster.wait(transaction={"id": "x", "state": "none"})
        assert isinstance(found, TransactionView)
        assert ("x", "none", -1) == (found.transactional_id, found.state, found.producer_id)


def test_a_cluster_is_left_once() -> None:
    with Cluster() as cluster:
        pass
    with pytest.raises(RuntimeError, match="the cluster does not run"):
        cluster.__exit__(None, None, None)


async def test_a_cluster_is_left_once_in_the_loop_of_the_test() -> None:
    async with Cluster() as cluster:
        pass
    with pytest.raises(RuntimeError, match="the cluster does not run"):
        await cluster.__aexit__(None, None, None)


def test_ports_end_before_the_brokers_do() -> None:
    with (
        pytest.raises(ListenError, match=r"^Port 65535 is out of range for 3 brokers: ports end at 65535\.$"),
        Cluster(port=65_535, brokers=3),
    ):
        pass
