"""What asking a share coordinator touches of a broker; its messages are imported by who asks (`shares`)."""

from __future__ import annotations

from typing import Protocol

from odradek.node.hosting.controller import HasController
from odradek.node.seams import HasClock, HasConfig, HasKernel, HasMetadata, HasTurns
from odradek.node.transport.peers import HasPeers
from odradek.node.transport.router import HasRouter

__all__ = ["AsksShares"]


class AsksShares(HasClock, HasConfig, HasController, HasKernel, HasMetadata, HasPeers, HasRouter, HasTurns, Protocol):
    """Calls to whichever broker coordinates the share partition, whose topic is made by the first who asks."""
