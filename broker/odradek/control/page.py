"""The page of the hub over HTTP: `/` for a browser, and its files under `/page/`.

The files belong to the package and contain nothing of a cluster, so they need no token: a browser cannot send one when
a person opens an address. The page asks for the token and sends it with every call; calls are refused without it.
Foreign hosts and origins are refused the files, too.
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
"""The page loads nothing from elsewhere, runs only its own files, and cannot be embedded."""
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    # Browsers must revalidate: another version of Odradek may listen on the same port later.
    "cache-control": "no-cache",
    "vary": "Accept",
}
TYPES = {"text/html": 2, "text/*": 1, "*/*": 0}
JSON_TYPES = {"application/json": 2, "application/*": 1, "*/*": 0}


def prefers_html(accept: str) -> bool:
    """Whether the header Accept prefers HTML to JSON, as that of browsers does; `*/*` does not."""
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
    """A file of the page, or 304 if the browser has it already; None for an unknown name."""
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
