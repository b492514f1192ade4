"""The event loop of brokers: uvloop, or that of the standard library if uvloop is not installed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager

__all__ = ["heeding_stops", "loop_factory", "loop_options"]

STOPS = (signal.SIGINT, signal.SIGTERM)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Creates the loop."""
    try:
        import uvloop
    except ImportError:  # uvloop does not exist for Windows
        return asyncio.new_event_loop
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def loop_options() -> dict[str, object]:
    """The loop as options of anyio's backend."""
    return {"loop_factory": loop_factory()}


@contextmanager
def heeding_stops() -> Iterator[Callable[[], Awaitable[signal.Signals]]]:
    """Within the block SIGINT and SIGTERM do not end the process; the yielded object waits for the first of them.

    For the main thread, where an event loop runs. On Windows, whose loops handle no signals, Python's handlers do it.
    """
    loop = asyncio.get_running_loop()
    told: asyncio.Future[signal.Signals] = loop.create_future()

    def hear(number: int) -> None:
        if not told.done():
            told.set_result(signal.Signals(number))

    async def first() -> signal.Signals:
        return await asyncio.shield(told)

    with ExitStack() as exits:
        for number in STOPS:
            try:
                loop.add_signal_handler(number, hear, number)
            except NotImplementedError:
                before = signal.signal(number, lambda number, _: loop.call_soon_threadsafe(hear, number))
                exits.callback(signal.signal, number, before or signal.SIG_DFL)
            else:
                exits.callback(loop.remove_signal_handler, number)
        yield first
