"""Names that options and arguments take, as shells complete them; what knows them is imported when it is asked."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["dialects", "log_levels", "releases", "securities", "shells", "stories"]


def stories() -> Sequence[str]:
    """Of `odradek stories`."""
    from odradek.control.stories import names

    return names()


def dialects() -> Sequence[str]:
    """Of `odradek dialects`."""
    from odradek.dialects.load import names

    return names()


def releases() -> Sequence[str]:
    """Of Kafka, the oldest first."""
    from odradek.releases import RELEASES

    return list(RELEASES)


def shells() -> Sequence[str]:
    """Of `odradek completion`."""
    from odradek.cli.completion import SHELLS

    return list(SHELLS)


def log_levels() -> Sequence[str]:
    """Of the log of the process."""
    from odradek.cli.logs import LEVELS

    return list(LEVELS)


def securities() -> Sequence[str]:
    """How clients get in."""
    from odradek.net.prepared import SECURITIES

    return list(SECURITIES)
