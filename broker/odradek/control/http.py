"""The hub over HTTP: authorization, routing, and errors as problem documents (RFC 9457)."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from odradek.cli.usage import UsageError
from odradek.control.conditions import TookTooLong
from odradek.control.endpoints.asked import Asked, Endpoint, File
from odradek.control.endpoints.events import kinds_of, seq_of
from odradek.control.endpoints.state import truth_of
from odradek.control.endpoints.table import ENDPOINTS
from odradek.control.events import event_body
from odradek.control.hub import Hosted, Hub, Taken
from odradek.control.messages.common import Problem
from odradek.control.page import page_file, prefers_html
from odradek.control.plan import PlanError, converted
from odradek.core.event_line import json_form
from odradek.faults.model import RuleError

if TYPE_CHECKING:
    from odradek.control.events import EventRing

__all__ = ["Access", "make_app"]

_ANY_NAME = re.compile(r"{(key|transactional_id|group|rule)}")
"""Parameters of paths that may contain a slash."""
BODY_BYTES_MAX = 1 << 20
SILENCE_S = 15.0
"""The interval at which a stream without events sends a sign of life."""
JSON, PROBLEM, STREAM = "application/json", "application/problem+json", "text/event-stream"
TITLES = {
    400: "Bad request",
    401: "Token needed",
    403: "Not for web pages",
    404: "Not there",
    405: "Wrong method",
    408: "It did not come",
    409: "Not possible now",
    413: "Body too long",
    500: "A bug",
}


class Access(Struct, frozen=True):
    """The requests that are served: they name one of these hosts, and have the token if there is one."""

    hosts: frozenset[str] | None
    """`HOST:PORT` as in the header Host; None: any."""
    token: str | None = None

    def refusal(self, request: Request) -> Problem | None:
        """The reason why this request is refused, checked before anything else."""
        return self.foreign(request) or self._without_token(request)

    def foreign(self, request: Request) -> Problem | None:
        """The reason why a request is refused that names another host, or comes from a page of another origin."""
        host = request.headers.get("host", "").lower()
        if self.hosts is not None and host not in self.hosts:
            return problem(403, f"This hub is not called {host}: it is {', '.join(sorted(self.hosts))}.")
        origin = request.headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
            return problem(403, f"A page of {origin} must not drive the brokers of a developer.")
        return None

    def _without_token(self, request: Request) -> Problem | None:
        if self.token is not None:
            given = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
            if not secrets.compare_digest(given.encode(), self.token.encode()):
                return problem(401, "This hub takes requests with its token: Authorization: Bearer TOKEN.")
        return None


def problem(status: int, detail: str, *, field: str | None = None, nearest: object = None) -> Problem:
    """A problem document with this detail as a sentence."""
    sentence = detail[:1].upper() + detail[1:]
    if not sentence.endswith((".", "!", "?")):
        sentence += "."
    return Problem(title=TITLES.get(status, "Error"), status=status, detail=sentence, field=field, nearest=nearest)


def _answer(status: int, value: object, media_type: str = JSON) -> Response:
    if value is None:
        return Response(status_code=status)
    return Response(msgspec.json.encode(value, enc_hook=json_form), status_code=status, media_type=media_type)


def _file(made: File) -> Response:
    """A file for download: a browser must not run it as a page of the hub."""
    headers = {"content-disposition": f'attachment; filename="{made.name}"', "x-content-type-options": "nosniff"}
    return Response(made.content, media_type=made.media_type, headers=headers)


def _refused(what: Problem) -> Response:
    response = _answer(what.status, what, PROBLEM)
    if what.status == 401:
        response.headers["www-authenticate"] = "Bearer"
    return response


def _problem_of(error: Exception) -> Problem | None:
    """The status and text for an exception; None for a bug."""
    match error:
        case HTTPException():
            return problem(error.status_code, error.detail)
        case PlanError():
            return problem(400, error.sentence, field=error.path)
        case RuleError():
            return problem(400, error.sentence, field=f"$.{error.field}")
        case TookTooLong():
            return problem(408, str(error), nearest=error.nearest)
        case LookupError():
            return problem(404, str(error.args[0]) if error.args else str(error))
        case Taken() | UsageError() | RuntimeError():
            return problem(409, str(error))
        case ValueError():
            return problem(400, str(error))
        case _:
            return None


def make_app(hub: Hub, access: Access) -> Starlette:
    """The application."""

    async def show_document(request: Request) -> Response:
        refused = access.refusal(request)
        return _refused(refused) if refused is not None else Response(_openapi(), media_type=JSON)

    async def show_file(request: Request) -> Response:
        refused = access.foreign(request)
        if refused is not None:
            return _refused(refused)
        name = request.path_params["name"]
        found = page_file(request, name)
        return _refused(problem(404, f"the page has no file {name}")) if found is None else found

    async def told(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        refused = access.refusal(request)
        if refused is None:
            there = "there is no call" if error.status_code == 404 else "there is a call, but it is not"
            refused = problem(error.status_code, f"{there} {request.method} {request.url.path}: see /openapi.json")
        return _refused(refused)

    by_path: dict[str, dict[str, Endpoint]] = {}
    for endpoint in ENDPOINTS:
        by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    routes = [
        Route("/openapi.json", show_document, methods=["GET"]),
        Route("/page/{name}", show_file, methods=["GET"]),
    ]
    for path, endpoints in by_path.items():
        calls = (_Front if path == "/" else _Calls)(hub, access, endpoints)
        routes.append(Route(_ANY_NAME.sub(r"{\1:path}", path), calls, methods=list(endpoints)))
    return Starlette(routes=routes, exception_handlers={404: told, 405: told})


@cache
def _openapi() -> bytes:
    from odradek.control.openapi import document  # most hubs never run a browser's page

    return msgspec.json.encode(document())


class _Calls:
    """The calls of one path."""

    def __init__(self, hub: Hub, access: Access, endpoints: Mapping[str, Endpoint]) -> None:
        self._hub = hub
        self._access = access
        self._endpoints = endpoints

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        try:
            response = await self._serve(request)
        except ClientDisconnect:
            return
        await response(scope, receive, send)

    async def _serve(self, request: Request) -> Response:
        refused = self._access.refusal(request)
        if refused is not None:
            return _refused(refused)
        # HEAD is answered as GET.
        endpoint = self._endpoints.get(request.method) or self._endpoints["GET"]
        try:
            return await self._call(endpoint, request)
        except ClientDisconnect:
            raise
        except Exception as error:
            what = _problem_of(error)
            if what is None:
                self._hub.log.error("call_failed", method=request.method, path=request.url.path, exc_info=error)
                what = problem(500, f"this is a bug of the hub, {type(error).__name__}; its log says more")
            return _refused(what)

    async def _call(self, endpoint: Endpoint, request: Request) -> Response:
        known = {parameter.name for parameter in endpoint.query}
        unknown = next((name for name in request.query_params if name not in known), None)
        if unknown is not None:
            raise ValueError(f"there is no parameter {unknown} here: there is {', '.join(sorted(known)) or 'none'}")
        body = await _body(endpoint, request)
        path = {name: str(value) for name, value in request.path_params.items()}
        hosted = self._hub.get(path["cluster"]) if "cluster" in path else None
        asked = Asked(self._hub, path, dict(request.query_params), body, hosted)
        if hosted is not None and truth_of(request.query_params, "follow"):
            return _stream(hosted, request)
        with nullcontext() if hosted is None else hosted.heard():
            value = (
                await _while_connected(endpoint.run(asked), request)
                if endpoint.path.endswith("/wait")
                else (await endpoint.run(asked))
            )
        return _file(value) if isinstance(value, File) else _answer(endpoint.status, value)


class _Front(_Calls):
    """`/`: the page for a browser, otherwise the call."""

    async def _serve(self, request: Request) -> Response:
        if prefers_html(request.headers.get("accept", "")):
            refused = self._access.foreign(request)
            found = page_file(request) if refused is None else _refused(refused)
            assert found is not None, "the package has its page"
            return found
        response = await super()._serve(request)
        response.headers["vary"] = "Accept"
        return response


async def _while_connected(run: Any, request: Request) -> object:
    """The answer of a call; the call is cancelled when the client disconnects."""
    running = asyncio.ensure_future(run)
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({running, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            raise ClientDisconnect
        return running.result()
    finally:
        gone.cancel()
        running.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _body(endpoint: Endpoint, request: Request) -> object:
    raw = b""
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > BODY_BYTES_MAX:
            raise HTTPException(413, f"A body is at most {BODY_BYTES_MAX} bytes long")
    if endpoint.body is None:
        # Many libraries send an empty object in place of no body.
        if raw.strip() and _decoded(raw) != {}:
            raise PlanError("This call takes no body, or {}.", path="$", source="body", line=None, column=None)
        return None
    if not raw.strip():
        if endpoint.body_required:
            raise PlanError("This call takes a body of JSON.", path="$", source="body", line=None, column=None)
        raw = b"{}"
    data = _decoded(raw)
    return data if endpoint.body is Any else converted(data, endpoint.body)


def _decoded(raw: bytes) -> object:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PlanError(f"The body is no JSON: {error}.", path="$", source="body", line=None, column=None) from None


def _stream(hosted: Hosted, request: Request) -> Response:
    last = request.headers.get("last-event-id")
    after = seq_of(last if last is not None else request.query_params.get("after", "0"))
    return StreamingResponse(
        _told(hosted, hosted.events, after, kinds_of(request.query_params)),
        media_type=STREAM,
        headers={"cache-control": "no-store"},
    )


async def _told(hosted: Hosted, ring: EventRing, after: int, kinds: frozenset[str]) -> AsyncIterator[bytes]:
    """Server-sent events. A slow reader learns how many it has missed, and goes on with the oldest stored one."""
    with hosted.heard():
        yield b": odradek\n\n"
        while True:
            if after < ring.first - 1:
                lost = {"from": after + 1, "to": ring.first - 1}
                after = ring.first - 1
                yield f"event: gap\nid: {after}\ndata: ".encode() + msgspec.json.encode(lost) + b"\n\n"
            # Sending may take long while new events arrive: each round sends a part only.
            part = []
            for event in ring.after(after):
                after = event.seq
                if not kinds or event.fact.kind in kinds:
                    part.append(
                        f"id: {event.seq}\nevent: {event.fact.kind}\ndata: ".encode()
                        + msgspec.json.encode(event_body(event), enc_hook=json_form)
                        + b"\n\n"
                    )
                if len(part) == PART:
                    break
            if part:
                yield b"".join(part)
            elif ring.ended:
                yield b"event: end\ndata: {}\n\n"
                return
            elif after >= ring.last:
                before = ring.last
                await ring.changed(SILENCE_S)
                if not ring.ended:
                    await asyncio.sleep(GATHERED_S)
                if ring.last == before and not ring.ended:
                    yield b": still here\n\n"


PART = 100
GATHERED_S = 0.02
"""Events within this time are sent together: brokers keep most of the processor, whatever the number of streams."""
