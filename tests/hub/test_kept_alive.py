"""How long a connection to the hub may be idle."""

from __future__ import annotations

import asyncio
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.hub.helpers import HubBeside

from odradek.control import serving

JAVA_KEEPS_S = 20 * 60
"""Java's client uses a connection again for so long (jdk.httpclient.keepalive.timeout), and fails if it was closed."""


def test_an_idle_connection_outlasts_those_that_clients_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    servers: list[Any] = []

    class Kept(serving._Server):
        def __init__(self, config: Any) -> None:
            super().__init__(config)
            servers.append(self)

    monkeypatch.setattr(serving, "_Server", Kept)
    with HubBeside() as hub:
        connection = HTTPConnection(str(urlsplit(hub.url).netloc))
        connection.request("GET", "/clusters")
        answer = connection.getresponse()
        assert 200 == answer.status
        answer.read()

        async def closes_in_s() -> float:
            [idle] = servers[0].server_state.connections
            while idle.timeout_keep_alive_task is None:  # noqa: ASYNC110 - set in the turn after the answer was written
                await asyncio.sleep(0)
            return float(idle.timeout_keep_alive_task.when() - asyncio.get_running_loop().time())

        assert JAVA_KEEPS_S < hub.until_done(closes_in_s) <= serving.KEPT_ALIVE_S
        connection.close()
