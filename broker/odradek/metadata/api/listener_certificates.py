"""Whether a broker's listeners can go on with the certificates that it is told of: only it has them before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odradek.host.seams import HasCertificates, HasConfig, HasIdentity, HasMetadata, HasStaticConfig
from odradek.metadata.change import Failure
from odradek.metadata.configs import Step, overrides_after
from odradek.metadata.image import ResourceType
from odradek.wire.errors import ErrorCode

__all__ = ["Node", "unusable_certificates"]


class Node(HasCertificates, HasConfig, HasIdentity, HasMetadata, HasStaticConfig, Protocol):
    """A broker whose configuration is to become another."""


def unusable_certificates(node: Node, steps: Sequence[Step], *, replaces: bool = False) -> Failure | None:
    """Why the listeners could not go on, if these changes of the broker's configuration were made (KIP-226).

    What the controller will refuse is left to it.
    """
    if node.certificates is None:
        return None
    name, image = str(node.node_id), node.image
    after = overrides_after(ResourceType.BROKER, name, list(steps), image, node.config, replaces=replaces)
    if isinstance(after, Failure):
        return None
    cluster = image.config(ResourceType.BROKER, "")
    complaint = node.certificates.complaint(node.static_config.dynamic(cluster=cluster, broker=after))
    if complaint is None:
        return None
    return Failure(
        ErrorCode.INVALID_REQUEST,
        "Invalid value org.apache.kafka.common.config.ConfigException: Validation of dynamic config update of "
        f"SSLFactory failed: {complaint} for configuration Invalid dynamic configuration",
    )
