"""What a newly published image means for the configuration of a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from odradek.host.seams import HasCertificates, HasIdentity, HasStaticConfig
from odradek.metadata.image import MetadataImage, ResourceType

if TYPE_CHECKING:
    from odradek.config.table import Config
    from odradek.host.housekeeping import Housekeeping
    from odradek.host.settings import Settings

__all__ = ["adopt"]


class Node(HasCertificates, HasIdentity, HasStaticConfig, Protocol):
    """A broker whose configuration may become another."""

    config: Config

    @property
    def settings(self) -> Settings: ...

    def limit_connections(self) -> None: ...

    @property
    def housekeeping(self) -> Housekeeping: ...


def adopt(node: Node, before: MetadataImage, after: MetadataImage) -> None:
    """Take over what is set for this broker, or for all, and plan the chores anew."""
    if before.configs is after.configs:
        return
    cluster = after.config(ResourceType.BROKER, "")
    broker = after.config(ResourceType.BROKER, str(node.node_id))
    config = node.static_config.dynamic(cluster=cluster, broker=broker) if cluster or broker else node.static_config
    if config.layers != node.config.layers:
        node.config = config
        node.settings.adopt(config)
        node.housekeeping.adopt()
        node.limit_connections()
    if node.certificates is not None and broker is not before.config(ResourceType.BROKER, str(node.node_id)):
        # Whoever sets a path to what it is wants the file read again, which may have been written anew.
        node.certificates.adopt(config)
