"""The page at `/`: HTML for a browser, JSON for everybody else, and its files under `/page/`."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from http.client import HTTPResponse
from pathlib import PurePosixPath
from urllib.parse import urlsplit

import pytest
from tests.hub.helpers import HubBeside

from odradek import __version__, page
from odradek.control.client import HubClient
from odradek.control.page import prefers_html

CHROMIUM = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"


def got(url: str, path: str, **headers: str) -> tuple[HTTPResponse, bytes]:
    """What GET answers."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


@pytest.mark.parametrize(
    ("accept", "html"),
    [
        (CHROMIUM, True),
        ("text/html", True),
        ("TEXT/HTML;Q=1, application/json;q=0.9", True),
        ("text/*", True),
        ("", False),
        ("*/*", False),
        ("application/json", False),
        ("application/json, text/html", False),
        ("text/html;q=0.5, application/json", False),
        ("text/html;q=0, */*", False),
        ("text/html;q=much", False),
        ("application/json;q=0, */*", True),
    ],
)
def test_who_gets_html(accept: str, html: bool) -> None:
    assert html == prefers_html(accept)


def test_a_browser_gets_the_page_and_others_the_overview(hub: HubClient) -> None:
    answer, body = got(hub.url, "/", accept=CHROMIUM)
    assert 200 == answer.status
    assert "text/html; charset=utf-8" == answer.headers["content-type"]
    assert page.file("index.html") == body
    for headers in ({}, {"accept": "*/*"}, {"accept": "application/json"}):
        answer, body = got(hub.url, "/", **headers)
        assert "application/json" == answer.headers["content-type"]
        assert {"odradek": __version__, "clusters": []} == json.loads(body)
        assert "Accept" == answer.headers["vary"]


def test_every_file_of_the_page_is_served_with_its_type(hub: HubClient) -> None:
    for name in page.names():
        answer, body = got(hub.url, f"/page/{name}")
        assert (200, page.file(name)) == (answer.status, body)
        assert page.MEDIA_TYPES[PurePosixPath(name).suffix] == answer.headers["content-type"].partition(";")[0]
        assert "nosniff" == answer.headers["x-content-type-options"]
        assert "no-referrer" == answer.headers["referrer-policy"]


def test_the_page_runs_nothing_but_its_own_files(hub: HubClient) -> None:
    answer, _ = got(hub.url, "/", accept="text/html")
    policy = dict(each.split(" ", 1) for each in answer.headers["content-security-policy"].split("; "))
    assert {"'none'"} == {policy[name] for name in ("default-src", "base-uri", "form-action", "frame-ancestors")}
    assert {"'self'"} == {policy[name] for name in ("script-src", "style-src", "connect-src")}
    assert b"<style" not in page.file("index.html")


def test_a_browser_asks_again_and_is_told_that_nothing_has_changed(hub: HubClient) -> None:
    first, _ = got(hub.url, "/page/main.js")
    assert "no-cache" == first.headers["cache-control"]
    again, body = got(hub.url, "/page/main.js", if_none_match=f'"of-another-version", W/{first.headers["etag"]}')
    assert (304, b"") == (again.status, body)
    assert first.headers["etag"] == again.headers["etag"]
    assert 200 == got(hub.url, "/page/main.js", if_none_match='"of-another-version"')[0].status
    assert first.headers["etag"] != got(hub.url, "/page/dom.js")[0].headers["etag"]


@pytest.mark.parametrize("name", ["nothing.js", "..%2F__init__.py", "__init__.py", "%2e%2e", "main.js%00"])
def test_there_are_no_other_files(hub: HubClient, name: str) -> None:
    answer, body = got(hub.url, f"/page/{name}")
    assert 404 == answer.status
    assert "application/problem+json" == answer.headers["content-type"]
    assert 404 == json.loads(body)["status"]


@pytest.mark.parametrize("path", ["/", "/page/main.js", "/page/nothing.js"])
def test_foreign_hosts_and_origins_get_nothing(hub: HubClient, path: str) -> None:
    for headers in ({"host": "evil.example"}, {"origin": "http://evil.example"}, {"origin": "null"}):
        answer, body = got(hub.url, path, accept="text/html", **headers)
        assert 403 == answer.status
        assert "application/problem+json" == answer.headers["content-type"]
        assert "Not for web pages" == json.loads(body)["title"]


def test_with_a_token_the_page_is_there_and_every_call_needs_it() -> None:
    with HubBeside(token="secret") as guarded:
        for path in ("/", "/page/main.js"):
            assert 200 == got(guarded.url, path, accept="text/html")[0].status
            assert 403 == got(guarded.url, path, accept="text/html", host="evil.example")[0].status
        for path in ("/", "/clusters", "/openapi.json", "/page/more/main.js"):
            answer, body = got(guarded.url, path, accept="application/json")
            assert (401, "Bearer") == (answer.status, answer.headers["www-authenticate"])
            assert b"secret" not in body
        assert 200 == got(guarded.url, "/", authorization="Bearer secret")[0].status


def test_the_page_is_not_read_before_a_browser_asks() -> None:
    code = "import odradek.control.serving, odradek.page; print(odradek.page.file.cache_info().currsize)"
    assert "0\n" == subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_help_says_that_there_is_a_page() -> None:
    for command in ("hub", "serve"):
        done = subprocess.run([sys.executable, "-m", "odradek", command, "--help"], capture_output=True, text=True)
        assert "browser" in done.stdout.lower()
