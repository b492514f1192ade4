"""The sink for pushed metrics: OpenTelemetry's MetricsData, decoded into names and values (KIP-714, OTLP 1.x).

Kafka needs a plug-in for this, and accepts no metrics without one. This is Odradek's own; `odradek.telemetry` enables
it. The library for the format is loaded by the first push.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from odradek.records.compression import Compression, DecompressionError

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.metrics.v1.metrics_pb2 import (
        ExponentialHistogramDataPoint,
        HistogramDataPoint,
        NumberDataPoint,
        SummaryDataPoint,
    )
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric as OtlpMetric

__all__ = ["BIG_BYTES", "PUSHES_KEPT", "Metric", "NoMetrics", "Push", "Sink", "Unpacked", "unpack"]

UNPACKED_BYTES_MAX = 16 * 1024 * 1024
"""The most bytes that one push may unpack to; the largest push of a Java client has a hundredth of it."""
BIG_BYTES = 16 * 1024
"""A larger push is decoded beside the event loop; a smaller one takes no more than a fraction of a second."""
PUSHES_KEPT = 1000
"""The number of newest pushes that a test can read."""

Number: TypeAlias = int | float


class NoMetrics(Exception):
    """The bytes of a push are no MetricsData, or cannot be unpacked; the text says why."""


class Metric(Struct, frozen=True):
    """One value of a metric."""

    name: str
    kind: str
    """`gauge`, `sum`, `histogram`, `exponential_histogram` or `summary`."""
    value: Number | None
    """The sum of a histogram or summary; None for a metric without a value."""
    count: int | None = None
    """How many values a histogram or a summary is made of."""
    attributes: Mapping[str, str] = {}


class Unpacked(Struct, frozen=True):
    """The content of a push."""

    bytes: int
    """When unpacked."""
    labels: Mapping[str, str]
    """Attributes that the client sends of itself, such as `group_id`; the resource of OpenTelemetry."""
    metrics: tuple[Metric, ...]


class Push(Struct, frozen=True):
    """One push of a client."""

    at_ms: int
    """When it came, since 1970, by the broker's clock."""
    client_instance_id: str
    """As Kafka writes ids."""
    client_id: str
    client_software_name: str
    client_software_version: str
    subscription_id: int
    terminating: bool
    """Whether it is the client's last."""
    compression: str
    compressed_bytes: int
    content: Unpacked

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Every value that was pushed."""
        return self.content.metrics

    def values(self, beginning: str) -> list[Number]:
        """The values of the metrics whose names have this prefix."""
        return [each.value for each in self.metrics if each.value is not None and each.name.startswith(beginning)]


class Sink:
    """The pushes to one broker."""

    def __init__(self) -> None:
        self.pushes: deque[Push] = deque(maxlen=PUSHES_KEPT)


def unpack(compression: Compression, data: bytes) -> Unpacked:
    """The metrics in the bytes of a push. Raises `NoMetrics`."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

    from odradek.records.compressors import decompress

    try:
        plain = bytes(decompress(compression, data, limit=UNPACKED_BYTES_MAX)) if compression else data
        message = MetricsData.FromString(plain)
    except (DecompressionError, DecodeError) as error:
        raise NoMetrics(str(error)) from error
    labels: dict[str, str] = {}
    metrics: list[Metric] = []
    for resource in message.resource_metrics:
        labels |= _attributes(resource.resource.attributes)
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                metrics += _values(metric)
    return Unpacked(len(plain), labels, tuple(metrics))


def _values(metric: OtlpMetric) -> Iterator[Metric]:
    """The data points of a metric, or the metric alone."""
    match metric.WhichOneof("data"):
        case "gauge":
            yield from _numbers(metric.name, "gauge", metric.gauge.data_points)
        case "sum":
            yield from _numbers(metric.name, "sum", metric.sum.data_points)
        case "histogram":
            yield from _sums(metric.name, "histogram", metric.histogram.data_points)
        case "exponential_histogram":
            yield from _sums(metric.name, "exponential_histogram", metric.exponential_histogram.data_points)
        case "summary":
            yield from _sums(metric.name, "summary", metric.summary.data_points)
        case _:
            yield Metric(metric.name, "", None)


def _numbers(name: str, kind: str, points: Iterable[NumberDataPoint]) -> Iterator[Metric]:
    for point in points:
        value = point.as_int if point.WhichOneof("value") == "as_int" else point.as_double
        yield Metric(name, kind, value, None, _attributes(point.attributes))


def _sums(
    name: str,
    kind: str,
    points: Iterable[HistogramDataPoint] | Iterable[ExponentialHistogramDataPoint] | Iterable[SummaryDataPoint],
) -> Iterator[Metric]:
    for point in points:
        yield Metric(name, kind, point.sum, point.count, _attributes(point.attributes))


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, str]:
    return {pair.key: _text(pair.value) for pair in pairs}


def _text(value: AnyValue) -> str:
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "bool_value":
            return str(value.bool_value).lower()
        case "int_value":
            return str(value.int_value)
        case "double_value":
            return str(value.double_value)
        case other:
            return f"({other})" if other else ""
