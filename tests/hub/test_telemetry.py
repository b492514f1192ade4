"""What clients push of their metrics, in the words of the hub."""

from __future__ import annotations

import json
import math
import threading
from typing import Any

import pytest
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp
from tests.hub.helpers import made, refused
from tests.hub.test_ctl import Ctl, ctl  # noqa: F401  (a fixture)

from odradek.control.client import HubClient
from odradek.net.client import BlockingClient
from odradek.testing import Cluster
from odradek.wire.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from odradek.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.push_telemetry_request import PushTelemetryRequest

ON = {"odradek.telemetry": True}
CLIENT_METRICS = 16
ID = bytes(range(16))


def metrics(**values: float) -> bytes:
    """MetricsData with a gauge each."""
    gauges = [
        otlp.Metric(name=name.replace("_", "."), gauge=otlp.Gauge(data_points=[otlp.NumberDataPoint(as_double=value)]))
        for name, value in values.items()
    ]
    resource = otlp.ResourceMetrics(scope_metrics=[otlp.ScopeMetrics(metrics=gauges)])
    return bytes(otlp.MetricsData(resource_metrics=[resource]).SerializeToString())


class Pushing(BlockingClient):
    """A client that is asked for everything."""

    def subscribe(self) -> Pushing:
        configs = [
            AlterableConfig(name="metrics", config_operation=0, value="*"),
            AlterableConfig(name="interval.ms", config_operation=0, value="100"),
        ]
        resource = AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name="all", configs=configs)
        [altered] = self.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
        assert 0 == altered.error_code
        self.told: Any = self.ask(GetTelemetrySubscriptionsRequest(client_instance_id=ID), 0)
        return self

    def push(self, *, terminating: bool = False, **values: float) -> None:
        request = PushTelemetryRequest(
            client_instance_id=ID,
            subscription_id=self.told.subscription_id,
            terminating=terminating,
            metrics=metrics(**values),
        )
        assert 0 == self.ask(request, 0).error_code


def test_pushes_are_listed_and_waited_for(hub: HubClient) -> None:
    cluster, bootstrap = made(hub, config=ON)
    assert [] == hub.get("clusters", cluster, "telemetry")
    with Pushing(bootstrap, client_id="orders").subscribe() as client:
        client.push(a_rate=2.5, a_empty=math.nan, b_rate=1)
        client.push(terminating=True, b_rate=3)
    [first, last] = hub.get("clusters", cluster, "telemetry")
    assert ("orders", False, 1) == (first["client_id"], first["terminating"], first["broker"])
    assert [("a.rate", 2.5), ("a.empty", None), ("b.rate", 1)] == [(m["name"], m["value"]) for m in first["metrics"]]
    assert last["terminating"]
    [of_a] = hub.get("clusters", cluster, "telemetry", metric="a.")
    assert ["a.rate", "a.empty"] == [each["name"] for each in of_a["metrics"]]
    assert [last] == hub.get("clusters", cluster, "telemetry", terminating="true")
    assert [] == hub.get("clusters", cluster, "telemetry", client_id="nobody")

    found = hub.post("clusters", cluster, "wait", body={"telemetry": {"metric": "b.", "count": 2}})["found"]
    assert [last] == found
    body = {"telemetry": {"client_id": "nobody"}, "timeout_ms": 10}
    status, problem = refused(lambda: hub.post("clusters", cluster, "wait", body=body))
    assert 408 == status
    assert "0 of 1 push matched, 2 came in all" in problem["detail"]
    assert [last] == problem["nearest"]


def test_what_cannot_be_asked(hub: HubClient) -> None:
    without, _ = made(hub)
    for ask in (
        lambda: hub.get("clusters", without, "telemetry"),
        lambda: hub.post("clusters", without, "wait", body={"telemetry": {}}),
    ):
        status, problem = refused(ask)
        assert 409 == status
        assert "odradek.telemetry=true" in problem["detail"]
    cluster, _ = made(hub, config=ON)
    status, problem = refused(lambda: hub.get("clusters", cluster, "telemetry", terminating="perhaps"))
    assert (400, "Terminating is true or false, not perhaps.") == (status, problem["detail"])


def test_at_the_command_line(hub: HubClient, ctl: Ctl) -> None:  # noqa: F811
    _, bootstrap = made(hub, config=ON)
    with Pushing(bootstrap, client_id="orders").subscribe() as client:
        client.push(a_rate=2.5, b_rate=1)
        client.push(terminating=True, b_rate=3)
    head, first, last = ctl("telemetry").splitlines()
    assert head.split()[-2:] == ["TERMINATING", "METRICS"]
    assert (first.split()[-2:], last.split()[-2:]) == (["false", "2"], ["true", "1"])
    _, row = ctl("telemetry", "--metric", "a.").splitlines()
    assert ["orders", "a.rate", "2.5"] == row.split()[1:4]
    assert ["b.rate"] == [each["name"] for each in json.loads(ctl("telemetry", "--last", "--json"))[0]["metrics"]]


def test_a_test_waits_in_the_same_words() -> None:
    with Cluster(config=ON) as cluster, Pushing(cluster.bootstrap, client_id="orders").subscribe() as client:
        pushing = threading.Thread(target=client.push, kwargs={"a_rate": 1.0})
        pushing.start()
        [found] = cluster.wait(telemetry={"metric": "a.", "client_id": "orders"})
        pushing.join()
        assert "orders" == getattr(found, "client_id", None)
        with pytest.raises(TimeoutError, match=r"0 of 1 push matched, 1 came in all"):
            cluster.wait(telemetry={"terminating": True}, timeout_s=0.01)
    with Cluster() as plain, pytest.raises(RuntimeError, match=r"odradek\.telemetry=true"):
        plain.wait(telemetry={})
