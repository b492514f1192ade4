"""Tells whoever has started brokers where they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.cli.parent import end_with_stdin
from odradek.cli.usage import METRICS_READY, READY

if TYPE_CHECKING:
    from odradek.net.cluster import RunningCluster
    from odradek.net.prepared import Prepared

__all__ = ["print_ready"]


def print_ready(
    cluster: RunningCluster,
    metrics_url: str | None,
    *,
    tell_hub: Callable[[], None] | None,
    prepared: Prepared | None,
    until_stdin_ends: bool,
) -> None:
    """Print where clients connect, where the hub and the metrics are, and what settings clients need."""
    print(f"{READY}{cluster.bootstrap}", flush=True)
    if tell_hub is not None:
        tell_hub()
    if metrics_url is not None:
        print(f"{METRICS_READY}{metrics_url}", flush=True)
    if prepared is not None:
        from odradek.net.client_settings import settings_page  # few starts want to be told

        print(f"\n{settings_page(prepared.access(cluster.bootstrap))}", flush=True)
    if until_stdin_ends:
        end_with_stdin()
