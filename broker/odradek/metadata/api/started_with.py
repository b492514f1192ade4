"""What a broker was started with besides its configuration, by the keys that Kafka has for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from odradek.host.seams import HasConfig, HasIdentity, HasMetadata

if TYPE_CHECKING:
    from odradek.config.table import Config
    from odradek.metadata.image import EndpointImage

__all__ = ["LOG_DIR", "controller_listener", "started_with"]

LOG_DIR = "memory"
"""There is one store of logs, in memory; clients want a path."""
CONTROLLER_LISTENER = "CONTROLLER"
"""The name that Kafka's own configuration gives to the listener of controllers."""


class Node(HasConfig, HasIdentity, HasMetadata, Protocol):
    """What is read of a broker."""


def controller_listener(config: Config) -> str:
    """The name of the first listener of controllers."""
    return (*config.security().controller_listener_names, CONTROLLER_LISTENER)[0]


def started_with(node: Node) -> Mapping[str, str]:
    """The keys and their values; `log.dirs` and those of the quorum only where an operator has not set them."""
    controller_id = node.cluster.controller_id
    addresses = [f"{each.host}:{each.port}" for each in _endpoints(node, controller_id)]
    listeners = ",".join(f"{each.name}://{each.host}:{each.port}" for each in _endpoints(node, node.node_id))
    unless_set = {
        "controller.listener.names": controller_listener(node.config),
        # The controller lives in a broker.
        "controller.quorum.voters": f"{controller_id}@{addresses[0]}" if addresses else "",
        "log.dirs": LOG_DIR,
    }
    given = {name for _, texts in node.config.layers for name in texts}
    return {
        "advertised.listeners": listeners,
        "broker.id": str(node.node_id),
        "listeners": listeners,
        "node.id": str(node.node_id),
        "process.roles": "broker,controller" if node.node_id == controller_id else "broker",
        **{name: value for name, value in unless_set.items() if name not in given},
    }


def _endpoints(node: Node, node_id: int) -> tuple[EndpointImage, ...]:
    broker = node.image.brokers.get(node_id)
    return () if broker is None else broker.endpoints
