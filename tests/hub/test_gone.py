"""Clients that leave in the middle of a call: nothing that the hub should speak of."""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from typing import Any, TypeAlias

import pytest
from structlog.testing import CapturingLogger

from odradek.cli.logs import make_logger
from odradek.control.http import Access, make_app
from odradek.control.hub import Hub

Message: TypeAlias = MutableMapping[str, Any]


class Caller:
    """Calls the application as a server does that has read so much of a request."""

    def __init__(self) -> None:
        self.hub = Hub(log=make_logger(level="error"))
        self._app = make_app(self.hub, Access(None))

    async def call(self, path: str, *messages: Message) -> list[Message]:
        """What is sent to a client of which these messages come."""
        coming, sent = [*messages], list[Message]()

        async def receive() -> Message:
            return coming.pop(0)

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b""}
        await self._app(scope, receive, send)
        return sent


def body(of: dict[str, Any], *, more: bool = False) -> Message:
    return {"type": "http.request", "body": json.dumps(of).encode(), "more_body": more}


GONE: Message = {"type": "http.disconnect"}


@pytest.mark.parametrize("messages", [(body({"group": {"id": "g"}}), GONE), (body({}, more=True), GONE)])
async def test_who_leaves_while_it_waits_is_not_spoken_of(messages: tuple[Message, ...]) -> None:
    caller = Caller()
    try:
        made = await caller.call("/clusters", body({"id": "mine"}))
        assert 201 == made[0]["status"], made
        caller.hub.log = log = CapturingLogger()
        assert [] == await caller.call("/clusters/mine/wait", *messages)
        assert [] == log.calls
    finally:
        await caller.hub.close()
