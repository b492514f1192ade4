"""What is done to a broker while a client is at work: to ours, and to a real one."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Callable

from tests.oracle.asking import ask
from tests.oracle.real_kafka import RealKafka

from odradek.metadata.feature_updates import UpgradeType
from odradek.metadata.features import TRANSACTION_VERSION
from odradek.testing import Cluster
from odradek.wire.registry import ApiKey

__all__ = ["Control", "control_of", "control_of_kafka"]


@dataclasses.dataclass(frozen=True)
class Control:
    """Another level of transaction.version, and an end to every connection of a client."""

    set_transaction_version: Callable[[int], None]
    disconnect_clients: Callable[[], None]


def control_of(cluster: Cluster) -> Control:
    """Ours has methods for it."""
    return Control(cluster.set_transaction_version, cluster.disconnect_clients)


def control_of_kafka(kafka: RealKafka) -> Control:
    """A real one is asked as an operator would, and its connections are ended by the kernel (`ss -K`, as root)."""

    def set_transaction_version(level: int) -> None:
        for upgrade_type in (UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE):  # one of them is refused
            update = {"feature": TRANSACTION_VERSION, "max_version_level": level, "upgrade_type": upgrade_type}
            ask(("127.0.0.1", kafka.port), ApiKey.UPDATE_FEATURES, 1, {"feature_updates": [update]})

    def disconnect_clients() -> None:
        command = ["ss", "-K", "state", "established", "sport", "=", str(kafka.port)]
        subprocess.run(command, capture_output=True, check=True)

    return Control(set_transaction_version, disconnect_clients)
