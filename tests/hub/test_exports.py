"""`GET /clusters/{id}/exports/{form}`: what happened, as files for other programs."""

from __future__ import annotations

import json
import re
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen
from xml.etree import ElementTree

import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema
from tests.hub.helpers import HubBeside, Till, made

from odradek.control.client import HubClient
from odradek.show.events import event_of

pytestmark = pytest.mark.slow

Got = tuple[str, str, bytes]
HOSTILE = '<img onerror="x">/../'


def got(url: str, cluster: str, form: str, **query: str) -> Got:
    """The media type, the name of the file, and what is in it."""
    asked = f"?{urlencode(query)}" if query else ""
    with urlopen(f"{url}/clusters/{cluster}/exports/{form}{asked}", timeout=10) as answer:
        assert answer.headers["x-content-type-options"] == "nosniff"
        [name] = re.findall(r'^attachment; filename="([\w.-]+)"$', answer.headers["content-disposition"])
        return answer.headers["content-type"], name, answer.read()


def refused(url: str, cluster: str, form: str, **query: str) -> tuple[int, str]:
    with pytest.raises(HTTPError) as error:
        got(url, cluster, form, **query)
    return error.value.code, json.load(error.value)["detail"]


@pytest.fixture
def cluster(hub: HubClient) -> str:
    """Two producers have committed, x first."""
    cluster, bootstrap = made(hub, id="kitchen", topics=["t"])
    for name in ("x", "y"):
        till = Till(bootstrap, name)
        assert (0, 0, 0) == (till.add(), till.send(), till.end())
        hub.post("clusters", cluster, "wait", body={"transaction": {"id": name, "state": "CompleteCommit"}})
        till.close()
    return cluster


def test_a_picture_is_of_the_transaction_that_ended_last_or_of_another(beside: HubBeside, cluster: str) -> None:
    kind, name, content = got(beside.url, cluster, "svg")
    assert (kind, name) == ("image/svg+xml", "kitchen.svg")
    assert ElementTree.fromstring(content).get("aria-label") == "The transaction of y"
    kind, name, content = got(beside.url, cluster, "svg", transaction="x")
    assert name == "kitchen-x.svg"
    assert ElementTree.fromstring(content).get("aria-label") == "The transaction of x"
    kind, name, content = got(beside.url, cluster, "mermaid", transaction="x")
    assert (kind, name) == ("text/plain; charset=utf-8", "kitchen-x.mmd")
    assert content.startswith(b"sequenceDiagram\n")


def test_logs_have_all_transactions_or_one(beside: HubBeside, cluster: str) -> None:
    kind, name, content = got(beside.url, cluster, "perfetto")
    assert (kind, name) == ("application/x-protobuf", "kitchen.pftrace")
    assert {"x", "y"} <= tracks(content)
    one = tracks(got(beside.url, cluster, "perfetto", transaction="x")[2])
    assert "x" in one
    assert "y" not in one
    kind, name, content = got(beside.url, cluster, "shiviz", transaction="x")
    assert (kind, name) == ("text/plain; charset=utf-8", "kitchen-x.shiviz")
    assert content.startswith(b"(?<event>.*)")
    assert content.count(b"CompleteCommit") == 1
    assert got(beside.url, cluster, "shiviz")[2].count(b"CompleteCommit") == 2


def tracks(trace: bytes) -> set[str]:
    return {packet.track_descriptor.name for packet in schema.Trace.FromString(trace).packet}


def test_the_page_has_what_happened_and_what_is_stuck(beside: HubBeside, cluster: str) -> None:
    kind, name, content = got(beside.url, cluster, "html")
    assert (kind, name) == ("text/html; charset=utf-8", "kitchen.html")
    [data] = re.findall(r'id="data">(.*?)</script>', content.decode(), re.DOTALL)
    told = json.loads(data)
    assert {"x", "y"} <= set(told["histories"][0]["transactions"])
    assert "Nothing is stuck" in told["why"]["sentences"][-1]


def test_the_events_are_an_event_file(beside: HubBeside, cluster: str) -> None:
    kind, name, content = got(beside.url, cluster, "events")
    assert (kind, name) == ("application/jsonl", "kitchen.jsonl")
    events = [event_of(line) for line in content.splitlines()]
    assert len(events) > 20
    assert None not in events
    assert refused(beside.url, cluster, "events", transaction="x")[0] == 400


def test_what_there_is_not_is_told(beside: HubBeside, hub: HubClient, cluster: str) -> None:
    status, sentence = refused(beside.url, cluster, "png")
    assert (status, sentence) == (404, "There is no form png: there is html, events, svg, mermaid, shiviz, perfetto.")
    assert refused(beside.url, cluster, "svg", transaction="z")[0] == 404
    quiet, _ = made(hub, topics=["t"])
    assert refused(beside.url, quiet, "mermaid") == (404, "These events are about no transaction.")
    assert refused(beside.url, "none", "svg")[0] == 404
    assert refused(beside.url, cluster, "svg", transactional_id="x")[0] == 400


def test_a_name_is_neither_a_path_nor_markup(beside: HubBeside, hub: HubClient) -> None:
    cluster, bootstrap = made(hub, topics=["t"])
    till = Till(bootstrap, HOSTILE)
    assert (0, 0, 0) == (till.add(), till.send(), till.end())
    till.close()
    for form in ("html", "svg", "mermaid", "shiviz", "perfetto"):
        _, name, content = got(beside.url, cluster, form, transaction=HOSTILE)
        assert re.fullmatch(r"[\w-]+_img_onerror_x_[_.]*\.\w+", name), name
        if form != "perfetto":
            assert b"<img" not in content


def test_a_token_is_wanted_for_it() -> None:
    with HubBeside("secret") as guarded:
        hub = HubClient(guarded.url, token="secret")
        cluster, _ = made(hub, topics=["t"])
        assert refused(guarded.url, cluster, "events")[0] == 401
        asked = Request(f"{guarded.url}/clusters/{cluster}/exports/events", headers={"Authorization": "Bearer secret"})
        with urlopen(asked, timeout=10) as answer:
            assert answer.read().count(b"\n") > 5
