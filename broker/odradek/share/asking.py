"""What asking a share coordinator touches of a broker; its messages are imported by who asks (`shares`)."""

from __future__ import annotations

from typing import Protocol

from odradek.host.peers import HasPeers
from odradek.host.router import HasRouter
from odradek.host.seams import HasClock, HasConfig, HasKernel, HasMetadata, HasTurns
from odradek.metadata.controller_role import HasController

__all__ = ["AsksShares"]


class AsksShares(HasClock, HasConfig, HasController, HasKernel, HasMetadata, HasPeers, HasRouter, HasTurns, Protocol):
    """Calls to whichever broker coordinates the share partition, whose topic is made by the first who asks."""
