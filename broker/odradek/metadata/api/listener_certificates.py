"""A check of the certificates in a change of a broker's configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from odradek.metadata.change import Failure
from odradek.metadata.configs import Step, overrides_after
from odradek.metadata.image import ResourceType
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.host.host import Host

__all__ = ["ListenerCertificates"]


class ListenerCertificates:
    """The certificates of one broker, which only the broker itself can read."""

    def __init__(self, node: Host) -> None:
        self._node_id = node.node_id
        self._node = node
        self._metadata = node.metadata
        self._settings = node.settings

    def complaint(self, steps: Sequence[Step], *, replaces: bool = False) -> Failure | None:
        """The reason why the listeners cannot apply these changes of the broker's configuration (KIP-226), or None.

        Changes that the controller will refuse are left to it.
        """
        certificates = self._node.certificates
        if certificates is None:
            return None
        name, image, settings = str(self._node_id), self._metadata.image, self._settings
        after = overrides_after(ResourceType.BROKER, name, list(steps), image, settings.config, replaces=replaces)
        if isinstance(after, Failure):
            return None
        cluster = image.config(ResourceType.BROKER, "")
        complaint = certificates.complaint(settings.at_start.dynamic(cluster=cluster, broker=after))
        if complaint is None:
            return None
        return Failure(
            ErrorCode.INVALID_REQUEST,
            "Invalid value org.apache.kafka.common.config.ConfigException: Validation of dynamic config update of "
            f"SSLFactory failed: {complaint} for configuration Invalid dynamic configuration",
        )
