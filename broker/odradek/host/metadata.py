"""The metadata image that a broker has published."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.metadata.image import MetadataImage

__all__ = ["Metadata"]


class Metadata:
    """Holds the newest image. Parts keep the holder; an image that was read before an `await` may be old after it."""

    __slots__ = ("image", "transaction_version")

    def __init__(self, image: MetadataImage) -> None:
        self.publish(image)

    def publish(self, image: MetadataImage) -> None:
        self.image = image
        self.transaction_version = image.transaction_version
