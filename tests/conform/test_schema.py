"""The JSON schema of the driver's protocol: it is what the types say, and it knows right lines from wrong ones."""

from __future__ import annotations

from typing import Any

import jsonschema
import msgspec
import pytest

from odradek.conform.protocol import VERBS, Answer, Begin, Init, Offset, Poll, Role, Send, SendOffsets, verb_of
from odradek.conform.schema import committed, schema, text

RIGHT: list[Any] = [
    {"hello": {"library": "x", "version": "1", "language": "c", "verbs": ["init"]}},
    {"id": 1, "done": {}},
    {"id": 1, "done": {"partition": 0, "offset": 17}},
    {"id": 1, "error": {"name": "PRODUCER_FENCED", "class": "fatal", "message": "There is a newer producer."}},
    {"id": 1, "unsupported": "no such verb"},
    {"verb": "close", "id": 9, "client": "p1", "timeout_ms": 100},
    {"verb": "begin", "id": 9, "client": "p1", "later": True},
]
WRONG: list[Any] = [
    {"hello": {"library": "x"}},
    {"id": 1},
    {"id": 1, "done": {}, "unsupported": "no"},
    {"id": 1, "error": {"name": "X", "class": "harmless"}},
    {"verb": "dance", "id": 1, "client": "p1"},
    {"verb": "init", "id": 1, "client": "p1"},
    {"done": {}},
]
REQUESTS = [
    Init(
        id=1, client="p1", role=Role.PRODUCER, bootstrap="a:1", config={"acks": "all", "linger.ms": 0}, needs=["acks"]
    ),
    Begin(id=2, client="p1", timeout_ms=5),
    Send(id=3, client="p1", topic="t", value="v", wait=True),
    SendOffsets(id=4, client="p1", group="g", offsets=[Offset(topic="t", partition=0, offset=1)], consumer="c1"),
    Poll(id=5, client="c1", max=3),
]


@pytest.fixture(scope="module")
def validator() -> Any:
    return jsonschema.Draft202012Validator(schema())


def test_the_file_is_fresh() -> None:
    assert text() == committed(), "python -m odradek.conform.schema > broker/odradek/conform/driver.schema.json"


@pytest.mark.parametrize("line", RIGHT, ids=str)
def test_right_lines(line: Any, validator: Any) -> None:
    validator.validate(line)


@pytest.mark.parametrize("line", WRONG, ids=str)
def test_wrong_lines(line: Any, validator: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(line)


@pytest.mark.parametrize("request_", REQUESTS, ids=verb_of)
def test_what_the_judge_sends(request_: Any, validator: Any) -> None:
    validator.validate(msgspec.json.decode(msgspec.json.encode(request_)))


def test_the_verbs() -> None:
    assert ("init", "begin", "send", "flush", "send_offsets", "commit", "abort", "subscribe", "poll", "close") == VERBS


def test_an_answer_is_one_thing() -> None:
    with pytest.raises(msgspec.ValidationError, match="exactly one of done, error and unsupported"):
        msgspec.json.decode(b'{"id": 1, "done": {}, "unsupported": "no"}', type=Answer)
