"""Names that options and arguments accept, for shell completion; each function imports the module that knows them."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["dialects", "log_levels", "releases", "securities", "shells", "stories"]


def stories() -> Sequence[str]:
    from odradek.control.stories import names

    return names()


def dialects() -> Sequence[str]:
    from odradek.releases.dialects.load import names

    return names()


def releases() -> Sequence[str]:
    """The releases of Kafka, oldest first."""
    from odradek.releases.table import RELEASES

    return list(RELEASES)


def shells() -> Sequence[str]:
    from odradek.cli.completion import SHELLS

    return list(SHELLS)


def log_levels() -> Sequence[str]:
    from odradek.cli.logs import LEVELS

    return list(LEVELS)


def securities() -> Sequence[str]:
    """The values of `--security`."""
    from odradek.net.prepared import SECURITIES

    return list(SECURITIES)
