"""An event loop beside the test, in a thread that ends with the interpreter at the latest."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future, wait
from typing import TypeVar

from odradek.net.event_loop import loop_factory

__all__ = ["Beside"]

T = TypeVar("T")


class Beside:
    """A loop that runs until `close`. Its thread is a daemon: Python waits for no such thread when it exits."""

    def __init__(self) -> None:
        self._ready: Future[asyncio.AbstractEventLoop] = Future()
        self._over: asyncio.Event
        self._thread = threading.Thread(target=self._run, name="odradek-cluster", daemon=True)
        self._thread.start()
        self.loop = self._ready.result()

    def call(self, coroutine: Coroutine[object, object, T]) -> T:
        """Run a coroutine in this loop, and return its result or raise its exception."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def ends(self, coroutine: Coroutine[object, object, object], *, timeout_s: float) -> bool:
        """Run a coroutine in this loop; False if it has not ended within the timeout."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        return bool(wait([future], timeout_s).done)

    def close(self) -> None:
        """End the loop and everything that still runs in it."""
        self.loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(self._until_over())
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)

    async def _until_over(self) -> None:
        self._over = asyncio.Event()
        self._ready.set_result(asyncio.get_running_loop())
        await self._over.wait()
