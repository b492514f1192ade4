"""Whether a broker's listeners can go on with the certificates that a change of its configuration names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from odradek.metadata.change import Failure
from odradek.metadata.configs import Step, overrides_after
from odradek.metadata.image import ResourceType
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.host.facts import Certificates
    from odradek.host.metadata import Metadata
    from odradek.host.settings import Settings

__all__ = ["ListenerCertificates"]


class ListenerCertificates:
    """The certificates of one broker; only the broker itself has them. `certificates` gives None without TLS."""

    def __init__(
        self, node_id: int, certificates: Callable[[], Certificates | None], *, metadata: Metadata, settings: Settings
    ) -> None:
        self._node_id = node_id
        self._certificates = certificates
        self._metadata = metadata
        self._settings = settings

    def complaint(self, steps: Sequence[Step], *, replaces: bool = False) -> Failure | None:
        """Why the listeners could not go on, if these changes of the broker's configuration were made (KIP-226).

        Changes that the controller will refuse are left to it.
        """
        certificates = self._certificates()
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
