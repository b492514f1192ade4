"""The OpenAPI document: valid, whole, and true of what is answered."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from tests.hub.helpers import Till, made
from tests.hub.test_telemetry import ON, Pushing

from odradek.control.client import HubClient
from odradek.control.endpoints.table import ENDPOINTS
from odradek.control.openapi import document


@pytest.fixture(scope="module")
def openapi() -> dict[str, Any]:
    return document()


def test_it_is_valid(openapi: dict[str, Any]) -> None:
    assert [] == list(OpenAPIV31SpecValidator(openapi).iter_errors())


def test_every_call_is_in_it_and_described(openapi: dict[str, Any]) -> None:
    listed = {(method.upper(), path) for path, calls in openapi["paths"].items() for method in calls}
    assert {(endpoint.method, endpoint.path) for endpoint in ENDPOINTS} == listed
    operations = [call for calls in openapi["paths"].values() for call in calls.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(names) == len(set(names))
    assert all(operation["summary"].endswith(".") for operation in operations)


def test_how_a_broker_is_stopped_may_be_left_out(openapi: dict[str, Any]) -> None:
    call = openapi["paths"]["/clusters/{cluster}/brokers/{broker}/stop"]["post"]
    assert not call["requestBody"].get("required", False)
    body = openapi["components"]["schemas"]["StopBody"]
    assert [] == body.get("required", [])
    assert {"cleanly", "fence_after_ms"} == body["properties"].keys()
    assert (0, 0) == (body["properties"]["fence_after_ms"]["default"], body["properties"]["fence_after_ms"]["minimum"])
    cleanly = body["properties"]["cleanly"]
    assert ("boolean", False) == (cleanly["type"], cleanly["default"])
    assert "KIP-966" in cleanly["description"]


@pytest.mark.slow
def test_what_is_answered_is_what_it_says(hub: HubClient, openapi: dict[str, Any]) -> None:
    """Every GET of a cluster in which something is going on."""
    cluster, bootstrap = made(hub, topics=["t"], config=ON)
    with Pushing(bootstrap, client_id="orders").subscribe() as client:
        client.push(a_rate=2.5)
    assert openapi == hub.get("openapi.json")
    hub.post(
        "clusters", cluster, "rules", body={"name": "r", "match": {"api": "WRITE_TXN_MARKERS"}, "act": {"hold": True}}
    )
    till = Till(bootstrap)
    assert (0, 0, 0) == (till.add(), till.send(), till.end())
    values = {
        "cluster": cluster,
        "rule": "r",
        "transactional_id": "till-1",
        "topic": "t",
        "partition": "0",
        "story": "epoch-overflow",
    }
    checked = 0
    for path, calls in openapi["paths"].items():
        if "get" not in calls or "{group}" in path:
            continue
        content = calls["get"]["responses"]["200"]["content"]
        if "application/json" not in content:
            continue
        answer = hub.call("GET", path.format(**values))
        schema = content["application/json"]["schema"]
        Draft202012Validator({**schema, "components": openapi["components"]}).validate(answer)
        checked += 1
    assert checked > 10
    till.close()
