"""The names of the package, for `odradek/__init__.py`, which imports them at their first use."""

from __future__ import annotations

from odradek.broker import Node
from odradek.config.table import Config
from odradek.host.cluster_spec import BrokerSpec, ClusterSpec
from odradek.host.events import (
    Compute,
    Computed,
    Connected,
    Disconnected,
    Hangup,
    NextTurn,
    Received,
    Send,
    Started,
    Tick,
    Turn,
)
from odradek.log.log_store import LogStore

__all__ = [
    "BrokerSpec",
    "ClusterSpec",
    "Compute",
    "Computed",
    "Config",
    "Connected",
    "Disconnected",
    "Hangup",
    "LogStore",
    "NextTurn",
    "Node",
    "Received",
    "Send",
    "Started",
    "Tick",
    "Turn",
]
