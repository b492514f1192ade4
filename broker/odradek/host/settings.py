"""The configuration of a broker, as it is now and as it was at start."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.config.table import Config
    from odradek.releases import Release

__all__ = ["Settings"]


class Settings:
    """Holds the configuration. Parts keep the holder: dynamic configuration replaces `config`."""

    __slots__ = ("at_start", "config", "release", "verifies_offsets", "verifies_records")

    def __init__(self, config: Config) -> None:
        self.at_start = config
        """The configuration that the broker was started with."""
        self.release: Release = config.release
        """The release of Kafka, or the dialect, that the broker is served as."""
        self.adopt(config)

    def adopt(self, config: Config) -> None:
        """Hold this configuration from now on."""
        self.config = config
        """The configuration as it is now."""
        self.verifies_records = config.verifies_records
        """What every transactional write asks for; it follows from the configuration."""
        self.verifies_offsets = config.verifies_offsets
