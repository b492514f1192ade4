"""A broker that a real controller has registered, and that does not exist.

With it one real broker can be made to hold back the markers of a transaction. A partition has two replicas, the second
of them here, and both must be in sync for a write to all: what a marker is. The phantom goes to sleep, is fenced, and
leaves the set of replicas in sync; the coordinator sends the marker again and again until one replica is enough.

While it is awake it leads what is given to it, so the real broker has to send clients away.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.oracle.client import Client
from tests.oracle.requests import build_request

from odradek.wire.errors import ErrorCode
from odradek.wire.registry import ApiKey

__all__ = ["PHANTOM_ID", "PHANTOM_PORT", "Phantom"]

PHANTOM_ID = 2
PHANTOM_PORT = 9  # discard: nobody listens
CAUGHT_UP = 1 << 62
HEARTBEAT_S = 0.5

LOG_DIRS_SINCE = 2


class Phantom:
    """The second broker of a cluster with one real one."""

    def __init__(
        self, controller: tuple[str, int], *, cluster_id: str, registration_version: int = 4, heartbeat_version: int = 1
    ) -> None:
        self.controller = controller
        self.cluster_id = cluster_id
        self.registration_version = registration_version
        self.heartbeat_version = heartbeat_version
        self.broker_epoch = -1

    def ask(self, api: ApiKey, version: int, fields: dict[str, Any]) -> Any:
        client = Client(self.controller)
        try:
            client.send(api, version, build_request(api, fields))
            return client.receive()
        finally:
            client.close()

    def register(self, features: list[tuple[str, int, int]]) -> None:
        """Become known to the controller, as a broker that supports these features."""
        listener = {"name": "PLAINTEXT", "host": "127.0.0.1", "port": PHANTOM_PORT, "security_protocol": 0}
        answer = self.ask(
            ApiKey.BROKER_REGISTRATION,
            self.registration_version,
            {
                "broker_id": PHANTOM_ID,
                "cluster_id": self.cluster_id,
                "incarnation_id": os.urandom(16),
                "listeners": [listener],
                "features": [
                    {"name": name, "min_supported_version": low, "max_supported_version": high}
                    for name, low, high in features
                ],
                "rack": None,
                "log_dirs": [os.urandom(16)] if self.registration_version >= LOG_DIRS_SINCE else [],
            },
        )
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code).name
        self.broker_epoch = answer.broker_epoch

    def wake(self) -> None:
        """Be a broker that leads and follows."""
        self.heartbeat(want_fence=False)

    def sleep(self) -> None:
        """Be fenced."""
        self.heartbeat(want_fence=True)

    def heartbeat(self, *, want_fence: bool) -> None:
        fields = {"broker_id": PHANTOM_ID, "broker_epoch": self.broker_epoch, "current_metadata_offset": CAUGHT_UP}
        answer = self.ask(ApiKey.BROKER_HEARTBEAT, self.heartbeat_version, {**fields, "want_fence": want_fence})
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code).name
        assert answer.is_fenced == want_fence, "the controller did not heed the heartbeat"

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Be awake all the time."""
        end = threading.Event()

        def beat() -> None:
            while not end.wait(HEARTBEAT_S):
                self.wake()

        self.wake()
        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()
