"""Facts about the start of a broker that its configuration does not have, under Kafka's keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.config.table import Config
    from odradek.host.cluster_spec import ClusterSpec
    from odradek.metadata.image import EndpointImage, MetadataImage

__all__ = ["controller_addresses", "controller_listener", "started_with"]

CONTROLLER_LISTENER = "CONTROLLER"
"""The name of the controllers' listener in Kafka's own configuration."""

QUORUM_VOTERS = "controller.quorum.voters"


def controller_listener(config: Config) -> str:
    """The name of the first listener of controllers."""
    return (*config.security().controller_listener_names, CONTROLLER_LISTENER)[0]


def controller_addresses(config: Config) -> Mapping[int, tuple[str, int]]:
    """Host and port of the controllers that `controller.quorum.voters` names (`ID@HOST:PORT,…`), by their node ids."""
    found: dict[int, tuple[str, int]] = {}
    for _, texts in reversed(config.layers):
        for voter in texts.get(QUORUM_VOTERS, "").split(","):
            node_id, _, address = voter.strip().partition("@")
            host, _, port = address.rpartition(":")
            if node_id.isdecimal() and port.isdecimal():
                found[int(node_id)] = (host.strip("[]"), int(port))
    return found


def started_with(
    node_id: int, cluster: ClusterSpec, image: MetadataImage, config: Config, *, log_dir: str
) -> Mapping[str, str]:
    """The keys and their values; `log.dirs` and those of the quorum only if they are not configured."""
    controller_id = cluster.controller_id
    addresses = [f"{each.host}:{each.port}" for each in _endpoints(image, controller_id)]
    listeners = ",".join(f"{each.name}://{each.host}:{each.port}" for each in _endpoints(image, node_id))
    unless_set = {
        "controller.listener.names": controller_listener(config),
        # The controller runs inside a broker.
        QUORUM_VOTERS: f"{controller_id}@{addresses[0]}" if addresses else "",
        "log.dirs": log_dir,
    }
    given = {name for _, texts in config.layers for name in texts}
    return {
        "advertised.listeners": listeners,
        "broker.id": str(node_id),
        "listeners": listeners,
        "node.id": str(node_id),
        "process.roles": "broker,controller" if node_id == controller_id else "broker",
        **{name: value for name, value in unless_set.items() if name not in given},
    }


def _endpoints(image: MetadataImage, node_id: int) -> tuple[EndpointImage, ...]:
    broker = image.brokers.get(node_id)
    return () if broker is None else broker.endpoints
