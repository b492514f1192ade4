"""Where a cluster says that the state of its brokers may have changed, for those who wait for state."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Changes", "Watcher"]


class Watcher(Protocol):
    """Looks at the state of brokers again when it may have changed."""

    def changed(self) -> None:
        """A broker has made a step, or a rule was removed. Called very often: whoever looks does so later."""

    def ended(self) -> None:
        """The cluster is gone; nothing changes any more."""


class Changes:
    """Of one cluster. Without a watcher a step of a broker pays one comparison."""

    def __init__(self) -> None:
        self.watcher: Watcher | None = None
        """Set while somebody waits for state, and only then."""
        self.over = False
        """Whether the cluster is gone."""

    def tell(self) -> None:
        """Something has changed outside the steps of brokers."""
        if self.watcher is not None:
            self.watcher.changed()

    def end(self) -> None:
        """The cluster is gone."""
        self.over = True
        if self.watcher is not None:
            self.watcher.ended()
