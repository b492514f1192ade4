"""A real browser, and what a page may not do in any test: fail, log an error, ask another host."""

from __future__ import annotations

import html
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Route, async_playwright, expect

from odradek.control.page import POLICY
from odradek.page import MEDIA_TYPES, file, names

__all__ = ["CHROMIUM", "Pages", "Scheme", "StubHub", "chromium", "violations"]

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
"""Debian's package, or what the machines of CI have; None without a browser."""
OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
FILE_URL = "http://file.test"
"""A name that nobody answers for: the tests themselves serve the page there."""
STUB_URL = "http://hub.test"
PATIENCE_MS = 15_000
"""So long a test waits for what it expects; a machine with much else to do is slow."""
AXE = files("axe_playwright_python").joinpath("axe.min.js")
Scheme = Literal["light", "dark"]
Answer = Callable[[str, str, dict[str, str], Any], object]
"""(method, path without the first slash, query, body) -> what is answered as JSON; a tuple is (status, JSON)."""


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Debian's Chromium, without a window."""
    assert CHROMIUM is not None
    expect.set_options(timeout=PATIENCE_MS)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        try:
            yield browser
        finally:
            await browser.close()


class StubHub:
    """A hub that is one function of the test. `asked` has all calls: (method, path, query, body)."""

    def __init__(self, answer: Answer) -> None:
        self.url = STUB_URL
        self.asked: list[tuple[str, str, dict[str, str], Any]] = []
        self.headers: list[dict[str, str]] = []
        self._answer = answer

    async def serve(self, route: Route) -> None:
        """Answer a call of the page."""
        request = route.request
        address = urlsplit(request.url)
        query = {name: values[-1] for name, values in parse_qs(address.query).items()}
        call = (request.method, unquote(address.path.lstrip("/")), query, request.post_data_json)
        self.asked.append(call)
        self.headers.append(request.headers)
        answer = self._answer(*call)
        status, body = answer if isinstance(answer, tuple) else (200, answer)
        await route.fulfill(status=status, body=msgspec.json.encode(body), content_type="application/json")


class Pages:
    """Opens pages in a profile of their own, and keeps what went wrong in them."""

    def __init__(self, browser: Browser) -> None:
        self.troubles: list[str] = []
        """What fails the test at its end. A test that provokes an error looks for it here, and takes it out."""
        self._browser = browser
        self._contexts: list[BrowserContext] = []

    async def close(self) -> None:
        """Close all of them."""
        for context in self._contexts:
            await context.close()

    async def of_file(self, data: object, address: str = "", **look: Any) -> Page:
        """The page as a file: `data` is {"histories": [History, …], "difference": …, "why": …}."""
        whole = {"histories": [], "difference": None, "why": None, **msgspec.to_builtins(data)}
        inside = json.dumps(whole).replace("<", "\\u003c")
        script = f'<script type="application/json" id="data">{inside}</script>\n'
        index = file("index.html").decode().replace("</body>", f"{script}</body>")

        async def serve(route: Route) -> None:
            await _static(route, index)

        return await self._opened(FILE_URL, address, serve, **look)

    async def of_path(self, path: Path, address: str = "", **look: Any) -> Page:
        """A page that is one file on the disk."""

        async def serve(route: Route) -> None:
            await route.continue_()

        return await self._opened(path.parent.as_uri(), f"{path.name}{address}", serve, **look)

    async def live(self, hub: str | StubHub, address: str = "", **look: Any) -> Page:
        """The page of a hub: its URL (it serves the page, too), or a stub."""
        base = hub if isinstance(hub, str) else hub.url

        async def serve(route: Route) -> None:
            if isinstance(hub, str):
                await route.continue_()
            elif _names_static(route):
                await _static(route, file("index.html").decode())
            else:
                await hub.serve(route)

        return await self._opened(base, address, serve, **look)

    async def _opened(
        self,
        base: str,
        address: str,
        serve: Callable[[Route], Awaitable[None]],
        *,
        width: int = 1280,
        height: int = 800,
        scheme: Scheme = "light",
        clock: bool = False,
        **more: Any,
    ) -> Page:
        """Open it. With `clock` no timer of the page fires until `page.clock` is moved on."""
        context = await self._browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, **more
        )
        self._contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)

        async def routed(route: Route) -> None:
            if route.request.url.startswith(f"{base}/"):
                await serve(route)
            else:
                self.troubles.append(f"asked elsewhere: {route.request.url}")
                await route.abort()

        await context.route("**/*", routed)
        page = await context.new_page()
        page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        page.on("console", self._heard)
        if clock:
            await page.clock.install()
            await page.clock.pause_at("2100-01-01")
        await page.goto(f"{base}/{address}")
        return page

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.troubles.append(f"{message.type}: {message.text}")


def _names_static(route: Route) -> bool:
    path = urlsplit(route.request.url).path
    return path == "/" or path == "/favicon.ico" or path.startswith("/page/")


async def _static(route: Route, index: str) -> None:
    path = urlsplit(route.request.url).path
    name = path.removeprefix("/page/")
    if path == "/":
        headers = {"content-security-policy": POLICY, "content-type": "text/html; charset=utf-8"}
        await route.fulfill(body=index, headers=headers)
    elif name in names():
        await route.fulfill(body=file(name), content_type=f"{MEDIA_TYPES[Path(name).suffix]}; charset=utf-8")
    else:
        await route.fulfill(status=204 if path == "/favicon.ico" else 404)


WHOLE: Mapping[str, object] = {"resultTypes": ["violations"]}
CONTRAST: Mapping[str, object] = {**WHOLE, "runOnly": ["color-contrast"]}


async def violations(page: Page) -> list[str]:
    """What axe-core finds wrong with the page as it stands: names, roles, headings, order, contrast in both schemes."""
    await page.evaluate(AXE.read_text(encoding="utf-8"))
    found = []
    runs: Sequence[tuple[Scheme, Mapping[str, object]]] = (("light", WHOLE), ("dark", CONTRAST))
    for scheme, options in runs:
        await page.emulate_media(color_scheme=scheme)
        result = await page.evaluate("options => axe.run(options)", options)
        for rule in result["violations"]:
            places = [f"{node['html'][:200]}: {node.get('failureSummary', '')}" for node in rule["nodes"]]
            found.append(f"{scheme}: {rule['id']}: {html.unescape(rule['help'])}\n  " + "\n  ".join(places))
    return found
