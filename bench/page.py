"""Whether the page stays quick while much happens: how long its frames last, in Debian's Chromium.

    python -m bench.page                        # a stub of 10,000 events a second, for a minute; then a hub under load
    python -m bench.page --seconds 10 --only stub
    python -m bench.page --only file            # 20,000 steps of a file, scrolled from one end to the other

A frame is the time between two calls of requestAnimationFrame in the page. The goal is a 95th percentile below 100 ms.
The hub is a process of its own; its broker is asked by one client, 50 requests at a time, as fast as it answers.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import socket
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

from playwright.async_api import Page, expect
from tests.page.browser import Pages, chromium
from tests.page.histories import long
from tests.page.ring import CLUSTER, Ring

from bench.hub import running_hub
from bench.quiet import Stopwatch
from bench.starved import framed
from odradek.control.client import HubClient
from odradek.records.record import Record, build_batch
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.registry import ApiKey

__all__ = ["main"]

GOAL_MS = 100
PIPELINED = 50
STEPS = 20_000
RECORD_FRAMES = """() => {
    window.frames_ms = [];
    let before = performance.now();
    const frame = (now) => { window.frames_ms.push(now - before); before = now; requestAnimationFrame(frame); };
    requestAnimationFrame(frame);
}"""
SCROLL = """seconds => new Promise((done) => {
    const box = document.querySelector(".lanes");
    const [began, high] = [performance.now(), box.scrollHeight - box.clientHeight];
    const frame = (now) => {
        box.scrollTop = high * Math.min(1, (now - began) / seconds / 1000);
        if (now - began < seconds * 1000) requestAnimationFrame(frame); else done();
    };
    requestAnimationFrame(frame);
})"""


class TimedRing(Ring):
    """A stub in which so many events happen every second."""

    def __init__(self, per_second: int) -> None:
        super().__init__(per_second)
        self._per_second = per_second
        self._began = time.monotonic()

    def answer(self, method: str, path: str, query: dict[str, str], body: object) -> object:
        """What the hub answers now."""
        self.events = int(self._per_second * (1 + time.monotonic() - self._began))
        return super().answer(method, path, query, body)


def _told(what: str, frames: list[float], watch: Stopwatch, more: str) -> None:
    p95 = statistics.quantiles(frames, n=100)[94]
    print(
        f"{what}: {len(frames):,} frames, median {statistics.median(frames):.1f} ms, p95 {p95:.1f} ms, "
        f"longest {max(frames):.0f} ms ({'below' if p95 < GOAL_MS else 'ABOVE'} {GOAL_MS}); {more}; "
        f"{watch.others():.0%} of the processors were at work for others, the browser among them",
        flush=True,
    )


async def _frames(page: Page, during: Callable[[], Awaitable[object]]) -> list[float]:
    await page.evaluate(RECORD_FRAMES)
    await during()
    frames: list[float] = await page.evaluate("window.frames_ms")
    return frames[1:]


async def _looked_at(page: Page, seconds: float) -> list[float]:
    await expect(page.locator(".row").first).to_be_attached()
    return await _frames(page, lambda: asyncio.sleep(seconds))


async def stub(pages: Pages, seconds: float, rate: int) -> None:
    """The stub, looked at."""
    ring, watch = TimedRing(rate), Stopwatch()
    page = await pages.live(ring.hub, "#then")
    began = ring.events
    frames = await _looked_at(page, seconds)
    counted = await page.locator(".tools .state").text_content()
    _told(
        f"stub, {(ring.events - began) / seconds:,.0f} events a second",
        frames,
        watch,
        f"asked {len(ring.asked)} times, “{counted}”",
    )


def _load(bootstrap: str) -> None:
    host, _, port = bootstrap.rpartition(":")
    data = PartitionProduceData(index=0, records=memoryview(build_batch([Record(timestamp=0, value=b"x")])))
    topics = [TopicProduceData(name="t", partition_data=[data])]
    frame = framed(ApiKey.PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics))
    with socket.create_connection((host, int(port))) as connection, connection.makefile("rb") as answers:
        while True:
            connection.sendall(frame * PIPELINED)
            for _ in range(PIPELINED):
                answers.read(int.from_bytes(answers.read(4)))


@contextmanager
def _under_load(bootstrap: str) -> Iterator[None]:
    process = multiprocessing.get_context("spawn").Process(target=_load, args=(bootstrap,), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


async def hub(pages: Pages, seconds: float, rate: int) -> None:
    """A real hub, whose broker is asked as fast as it answers."""
    with running_hub() as (_, url):
        client = HubClient(url)
        cluster = client.post("clusters", body={"id": CLUSTER, "topics": ["t"]})
        with _under_load(cluster["bootstrap"]):
            watch = Stopwatch()
            page = await pages.live(url, "#then")
            frames = await _looked_at(page, seconds / 2)
            first, began = await _newest(client), time.monotonic()
            frames += await _looked_at(page, seconds / 2)
            per_second = (await _newest(client) - first) / (time.monotonic() - began)
            counted = await page.locator(".tools .state").text_content()
            _told(f"hub, {per_second:,.0f} events a second", frames, watch, f"“{counted}”")


async def _newest(client: HubClient) -> int:
    told = await asyncio.to_thread(client.get, "clusters", CLUSTER, "history", most=1)
    return int(told["steps"][-1]["seq"])


async def file(pages: Pages, seconds: float, rate: int) -> None:
    """A long file, scrolled."""
    history, watch = long(STEPS), Stopwatch()
    page = await pages.of_file({"histories": [history]}, "#then")
    await expect(page.locator(".row").first).to_be_attached()
    frames = await _frames(page, lambda: page.evaluate(SCROLL, seconds / 4))
    rows = await page.locator(".row").count()
    _told(f"file of {len(history.steps):,} steps, scrolled", frames, watch, f"{rows} rows in the document")


SECTIONS: Mapping[str, Callable[[Pages, float, int], Awaitable[None]]] = {"stub": stub, "hub": hub, "file": file}


@asynccontextmanager
async def _pages() -> AsyncIterator[Pages]:
    async with chromium() as browser:
        opened = Pages(browser)
        yield opened
        await opened.close()
        for trouble in opened.troubles:
            print(trouble)


async def _main(only: list[str], seconds: float, rate: int) -> None:
    for name in only:
        async with _pages() as pages:
            await SECTIONS[name](pages, seconds, rate)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rate", type=int, default=10_000, help="events a second of the stub")
    asked = parser.parse_args()
    asyncio.run(_main(asked.only, asked.seconds, asked.rate))


if __name__ == "__main__":
    main()
