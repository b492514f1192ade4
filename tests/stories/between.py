"""Rules between clients and a real broker: a story's plan, played on the wire of a broker that knows nothing of it.

Every listener of the broker is advertised at a port of this process, the inter-broker one as well, so that what a
broker asks of itself over the network (verification, markers) comes by too. What a network may do is done here: delay,
hold, lose, disconnect. An `error` or a `reply` would be this process speaking, and no story is played with one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from odradek.faults.armed import Armed, SeenRequest, arm
from odradek.faults.model import Rule, Step
from odradek.host.router import Call
from odradek.sim import World
from odradek.wire import registry
from odradek.wire.messages.request_header import RequestHeader
from odradek.wire.registry import ApiKey

__all__ = ["Between", "Unplayable", "check_playable"]

ACTS = frozenset({"delay_ms", "hold", "drop", "disconnect", "answer_delay_ms"})


class Unplayable(Exception):
    """A story needs what a network does not do; the text says what."""


def check_playable(rules: Sequence[Rule]) -> None:
    """Raises Unplayable where a rule does what no network does."""
    if any(rule.act.given - ACTS for rule in rules):
        raise Unplayable("its error is the answer of a rule; no broker gives it by itself here")


class Between:
    """Rules, and the ports that they are consulted at. Runs in one event loop."""

    def __init__(self, rules: Sequence[Rule], follow: Callable[[Step, SeenRequest], None]) -> None:
        """`follow` does the steps that this cannot: it is called in a thread of its own, one step after the other."""
        check_playable(rules)
        self.failures: list[Exception] = []
        self.rules = arm(rules, present=[], brokers=[1], seed=1, failed=self.failures.append, number=0)
        self._follow = follow
        # What rules want to know of the broker that is asked: one that has no topics, and knows no sessions.
        self._asked = World(brokers=1, topics=[]).nodes[1]
        self._removed: set[str] = set()
        self._held: dict[str, list[asyncio.Event]] = {}
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, port: int, upstream: int, *, of_brokers: bool) -> None:
        """Stand between whoever comes to one port and the broker at the other."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._keep(asyncio.current_task())
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                back, forth = await asyncio.open_connection("127.0.0.1", upstream)
                try:
                    while True:
                        await self._one(await _frame(reader), writer, back, forth, of_brokers)
                finally:
                    forth.close()
                    writer.close()

        self._servers.append(await asyncio.start_server(serve, "127.0.0.1", port, limit=1 << 24))

    async def close(self) -> None:
        """Let go of everything: connections, and what is held."""
        for server in self._servers:
            server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _keep(self, task: asyncio.Task[None] | None) -> None:
        assert task is not None, "this runs in one"
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def unmet(self) -> list[str]:
        """A sentence for each rule that did not see what it expects."""
        return [said for armed in self.rules if (said := armed.unmet) is not None]

    async def _one(
        self,
        frame: bytes,
        writer: asyncio.StreamWriter,
        back: asyncio.StreamReader,
        forth: asyncio.StreamWriter,
        of_brokers: bool,
    ) -> None:
        """One request and its answer."""
        hit = self._hit(frame, of_brokers)
        act = None if hit is None else hit.rule.act
        if hit is not None and act is not None:
            await asyncio.sleep(act.delay_ms / 1000)
            if act.hold:
                await self._hold(hit.name)
            if act.drop:
                await asyncio.get_running_loop().create_future()
            if act.disconnect == "before":
                raise ConnectionResetError
        forth.write(len(frame).to_bytes(4) + frame)
        answer = await _frame(back)
        if act is not None:
            await asyncio.sleep(act.answer_delay_ms / 1000)
            if act.disconnect == "after":
                raise ConnectionResetError
        with suppress(OSError):  # a request is served even if its client has gone away meanwhile
            writer.write(len(answer).to_bytes(4) + answer)
            await writer.drain()

    async def _hold(self, name: str) -> None:
        released = asyncio.Event()
        self._held.setdefault(name, []).append(released)
        await released.wait()

    def _hit(self, frame: bytes, of_brokers: bool) -> Armed | None:
        """The first rule that does something to this request; those that only count are told of it."""
        call = _call(frame, of_brokers)
        if call is None:
            return None
        self._asked.clock.now = time.time_ns() // 1_000_000
        for armed in self.rules:
            if armed.name in self._removed:
                continue
            hits = armed.hits
            acts = armed.takes(self._asked, call)
            if armed.hits > hits and armed.rule.then:
                self._keep(asyncio.create_task(self._then(armed.rule.then, armed.requests[-1])))
            if acts:
                return armed
        return None

    async def _then(self, steps: Sequence[Step], request: SeenRequest) -> None:
        # The broker has to have seen the request first: here nobody knows when it has.
        await asyncio.sleep(0.1)
        for step in steps:
            if step.release or step.remove:
                if step.remove:
                    self._removed.add(step.remove)
                for released in self._held.pop(step.release or step.remove or "", []):
                    released.set()
            else:
                try:
                    await asyncio.to_thread(self._follow, step, request)
                except Exception as error:
                    self.failures.append(error)


async def _frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4)))


def _call(frame: bytes, of_brokers: bool) -> Call | None:
    """The request, as rules look at it; None for what Odradek does not know."""
    view = memoryview(frame)
    key, version = int.from_bytes(view[:2]), int.from_bytes(view[2:4])
    try:
        api_key = ApiKey(key)
        header_version = registry.request_header_version(api_key, version)
        header, position = registry.reader(RequestHeader, header_version)(view, 0)
        request: Any = registry.reader(registry.request_type(api_key), version)(view, position)[0]
    except Exception:
        return None
    return Call(
        api_key=api_key,
        version=version,
        correlation_id=header.correlation_id,
        client_id=header.client_id,
        request=request,
        host="127.0.0.1",
        is_broker=of_brokers,
    )
