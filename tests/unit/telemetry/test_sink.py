"""What is read out of OpenTelemetry's MetricsData."""

from __future__ import annotations

import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from odradek.records.compression import Compression
from odradek.records.compressors import compress
from odradek.telemetry import sink
from odradek.telemetry.sink import Metric, NoMetrics, unpack


def text(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


def data(*metrics: otlp.Metric) -> bytes:
    scope = otlp.ScopeMetrics(metrics=metrics)
    labels = Resource(attributes=[text("group_id", "g"), KeyValue(key="n", value=AnyValue(int_value=3))])
    resource = otlp.ResourceMetrics(resource=labels, scope_metrics=[scope])
    return bytes(otlp.MetricsData(resource_metrics=[resource]).SerializeToString())


SUM = otlp.Metric(
    name="sent", sum=otlp.Sum(data_points=[otlp.NumberDataPoint(as_int=7, attributes=[text("topic", "t")])])
)
GAUGE = otlp.Metric(name="rate", gauge=otlp.Gauge(data_points=[otlp.NumberDataPoint(as_double=0.5)]))
HISTOGRAM = otlp.Metric(name="rtt", histogram=otlp.Histogram(data_points=[otlp.HistogramDataPoint(sum=12.5, count=3)]))


@pytest.mark.parametrize("codec", Compression)
def test_names_values_and_labels(codec: Compression) -> None:
    plain = data(SUM, GAUGE, HISTOGRAM, otlp.Metric(name="bare"))
    found = unpack(codec, compress(codec, plain))
    assert found.bytes == len(plain)
    assert {"group_id": "g", "n": "3"} == found.labels
    assert found.metrics == (
        Metric("sent", "sum", 7, None, {"topic": "t"}),
        Metric("rate", "gauge", 0.5),
        Metric("rtt", "histogram", 12.5, 3),
        Metric("bare", "", None),
    )


@pytest.mark.parametrize(
    ("codec", "pushed"),
    [
        (Compression.NONE, b"\xff"),
        (Compression.GZIP, data(SUM)),
        (Compression.ZSTD, compress(Compression.ZSTD, b"\xff")),
        (Compression.LZ4, compress(Compression.LZ4, data(SUM))[:-6]),
    ],
)
def test_what_is_no_metrics_is_refused(codec: Compression, pushed: bytes) -> None:
    with pytest.raises(NoMetrics):
        unpack(codec, pushed)


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_a_push_that_unpacks_to_too_much_is_refused(codec: Compression, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "UNPACKED_BYTES_MAX", 1000)
    with pytest.raises(NoMetrics):
        unpack(codec, compress(codec, bytes(1001)))
