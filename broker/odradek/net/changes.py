"""A notification that the state of a cluster's brokers may have changed, for code that waits for a state."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Changes", "Watcher"]


class Watcher(Protocol):
    """Checks the state of brokers again after a change.

    A Protocol: waits of clusters are in `control`, which is above.
    """

    def changed(self) -> None:
        """A broker made a step, or a rule was removed. This is called very often, so the check itself is made later."""

    def ended(self) -> None:
        """The cluster has ended; nothing changes any more."""


class Changes:
    """The notification of one cluster. Without a watcher a step of a broker costs one comparison."""

    def __init__(self) -> None:
        self.watcher: Watcher | None = None
        """Set only while something waits for a state."""
        self.over = False
        """Whether the cluster has ended."""

    def tell(self) -> None:
        """Something changed outside the steps of brokers."""
        if self.watcher is not None:
            self.watcher.changed()

    def end(self) -> None:
        """The cluster has ended."""
        self.over = True
        if self.watcher is not None:
            self.watcher.ended()
