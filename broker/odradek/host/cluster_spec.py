"""The cluster of a node: its brokers and its controller."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from odradek.core.wording import counted

__all__ = ["BrokerSpec", "ClusterSpec", "Endpoint", "node_ids_of", "racks_of", "read_node_ids"]

NODE_ID_MAX = 2**31 - 1


class Endpoint(Struct, frozen=True):
    """The advertised address of one listener of a broker."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


class BrokerSpec(Struct):
    """A broker and its advertised address; of several listeners, that of the first."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    endpoints: tuple[Endpoint, ...] = ()
    """Its listeners; empty: one without encryption or login."""


class ClusterSpec(Struct):
    """Shared by the nodes of a cluster; the driver changes `controller_id` when the controller moves.

    The driver keeps `unheard` nodes from acknowledging anything: they are paused, or have crashed and are not fenced
    yet. Nodes
    that were shut down `cleanly` still have their data when they return; others may have lost some.
    """

    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerSpec, ...]
    unheard: frozenset[int] = frozenset()
    cleanly: frozenset[int] = frozenset()

    def broker(self, node_id: int) -> BrokerSpec:
        """The broker with this id. Raises KeyError."""
        for broker in self.brokers:
            if broker.node_id == node_id:
                return broker
        raise KeyError(node_id)

    def endpoints_of(self, node_id: int) -> tuple[Endpoint, ...]:
        """The listeners of a broker; empty if the cluster does not know them."""
        return next((broker.endpoints for broker in self.brokers if broker.node_id == node_id), ())


def node_ids_of(brokers: int | None, chosen: Sequence[int] | None) -> tuple[int, ...]:
    """The ids of the brokers of a new cluster: the chosen ones, else 1, 2, …; the first is the controller.

    Raises ValueError with one clear sentence for a list that no cluster can have.
    """
    if (brokers is not None and brokers < 1) or (chosen is not None and not chosen):
        raise ValueError("A cluster has at least one broker.")
    if chosen is None:
        return tuple(range(1, (brokers or 1) + 1))
    for node_id in chosen:
        if not 0 <= node_id <= NODE_ID_MAX:
            raise ValueError(f"A node id is from 0 to {NODE_ID_MAX}, not {node_id}.")
    twice = next((node_id for node_id in chosen if chosen.count(node_id) > 1), None)
    if twice is not None:
        raise ValueError(f"Each node id is given once, and {twice} is given {chosen.count(twice)} times.")
    if brokers is not None and brokers != len(chosen):
        raise ValueError(
            f"{counted(brokers, 'broker')} cannot have {counted(len(chosen), 'node id')}: give one id for each."
        )
    return tuple(chosen)


def racks_of(text: str | None, ids: Sequence[int]) -> dict[int, str]:
    """The racks by broker, from `broker.rack`: one for all of them, or one for each, separated by commas.

    Raises ValueError with one clear sentence for another number of racks.
    """
    if not text:
        return {}
    names = [name.strip() for name in text.split(",")]
    if len(names) not in (1, len(ids)):
        raise ValueError(
            "broker.rack is one rack for all brokers, or one for each: there are "
            f"{counted(len(ids), 'broker')} and {counted(len(names), 'rack')}."
        )
    return dict(zip(ids, names if len(names) > 1 else names * len(ids), strict=True))


def read_node_ids(text: str) -> list[int]:
    """A list like `0,1,2`. Raises ValueError with one clear sentence for any other text."""
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if not word.removeprefix("-").isdecimal() or len(word) > len(str(NODE_ID_MAX)) + 1:
            raise ValueError(f"Node ids are numbers, separated by commas, like 0,1,2; not {text!r}.")
    return [int(word) for word in words]
