"""The page of the hub over HTTP: `/` for a browser, and its files under `/page/`.

These are the files of the package and hold nothing of a cluster, so that they need no token: a browser cannot send
one when a person opens an address. The page asks for the token and sends it with every call, and no call is answered
without it. Foreign hosts and origins get the files as little as anything else.
"""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from pathlib import PurePosixPath

from starlette.requests import Request
from starlette.responses import Response

__all__ = ["POLICY", "page_file", "prefers_html"]

INDEX = "index.html"
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""Nothing comes from elsewhere, nothing runs that is not a file of the page, and no other page shows this one."""
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    # A browser asks again each time: the next version of Odradek may listen on the same port.
    "cache-control": "no-cache",
    "vary": "Accept",
}
TYPES = {"text/html": 2, "text/*": 1, "*/*": 0}
JSON_TYPES = {"application/json": 2, "application/*": 1, "*/*": 0}


def prefers_html(accept: str) -> bool:
    """Whether the header Accept asks for HTML rather than for JSON, as browsers do; `*/*` does not."""
    return _quality(accept, TYPES) > _quality(accept, JSON_TYPES)


def _quality(accept: str, ranks: dict[str, int]) -> float:
    """The weight of a media type: that of the most specific range which includes it (RFC 9110, 12.5.1)."""
    found = (-1, 0.0)
    for part in accept.lower().split(","):
        name, *parameters = (each.strip() for each in part.split(";"))
        if name in ranks:
            weight = next((each[2:] for each in parameters if each.startswith("q=")), "1")
            found = max(found, (ranks[name], _number(weight)))
    return found[1]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def page_file(request: Request, name: str = INDEX) -> Response | None:
    """A file of the page, or 304 for a browser that has it already; None where there is none of this name."""
    from odradek import page  # most hubs are never opened in a browser

    if name not in page.names():
        return None
    tag = _tag(name)
    headers = HEADERS | {"etag": tag}
    if tag in (each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")):
        return Response(status_code=304, headers=headers)
    return Response(page.file(name), media_type=page.MEDIA_TYPES[PurePosixPath(name).suffix], headers=headers)


@cache
def _tag(name: str) -> str:
    from odradek import page

    return f'"{blake2b(page.file(name), digest_size=8).hexdigest()}"'
