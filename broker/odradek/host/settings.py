"""The configuration of a broker, now and at its start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.metadata.image import MetadataImage, ResourceType

if TYPE_CHECKING:
    from odradek.config.table import Config
    from odradek.releases.release import Release

__all__ = ["Settings"]


class Settings:
    """Holds the configuration. Parts keep the holder: dynamic configuration replaces `config`."""

    __slots__ = ("at_start", "config", "release", "verifies_offsets", "verifies_records")

    def __init__(self, config: Config) -> None:
        self.at_start = config
        """The configuration at the start of the broker."""
        self.release: Release = config.release
        """The release of Kafka, or the dialect, of the broker."""
        self.adopt(config)

    def adopt(self, config: Config) -> None:
        self.config = config
        self.verifies_records = config.verifies_records
        """Read by every transactional write; follows from the configuration."""
        self.verifies_offsets = config.verifies_offsets

    def follow(self, image: MetadataImage, node_id: int) -> bool:
        """Adopt the configs of this broker, or of all, in an image; whether anything has changed."""
        cluster = image.config(ResourceType.BROKER, "")
        broker = image.config(ResourceType.BROKER, str(node_id))
        config = self.at_start.dynamic(cluster=cluster, broker=broker) if cluster or broker else self.at_start
        if config.layers == self.config.layers:
            return False
        self.adopt(config)
        return True
