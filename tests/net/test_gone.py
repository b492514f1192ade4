"""A cluster that has ended leaves no broker behind."""

import gc
import weakref

from odradek.broker import Node
from odradek.testing import Cluster


def brokers() -> dict[int, weakref.ref[Node]]:
    return {id(each): weakref.ref(each) for each in gc.get_objects() if type(each) is Node}


def test_a_cluster_that_has_ended_leaves_no_broker_in_memory() -> None:
    """Its newest events name the APIs that were asked for, and the collector does not look into events."""
    before = brokers().keys()
    with Cluster(brokers=2, topics=["t"]):
        own = [each for key, each in brokers().items() if key not in before]
        assert 2 == len(own)
    gc.collect()
    assert [] == [broker for each in own if (broker := each()) is not None]
