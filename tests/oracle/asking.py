"""What the runner itself asks of a broker, each time on a connection of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.oracle.client import Client
from tests.oracle.requests import build_request

from odradek.wire.errors import ErrorCode
from odradek.wire.registry import ApiKey

__all__ = ["ask", "create_topic", "partitions"]


def ask(address: tuple[str, int], api: ApiKey, version: int, fields: dict[str, Any]) -> Any:
    """One request on a connection of its own."""
    client = Client(address)
    try:
        client.send(api, version, build_request(api, fields))
        return client.receive()
    finally:
        client.close()


def create_topic(
    address: tuple[str, int], name: str, *, replicas: list[list[int]], configs: Mapping[str, str] | None = None
) -> None:
    """A topic with a partition on each of these sets of brokers."""
    topic = {
        "name": name,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [{"partition_index": index, "broker_ids": ids} for index, ids in enumerate(replicas)],
        "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
    }
    created = ask(address, ApiKey.CREATE_TOPICS, 7, {"topics": [topic], "timeout_ms": 10000}).topics[0]
    assert created.error_code == ErrorCode.NONE, created.error_message


def partitions(address: tuple[str, int], topic: str) -> list[Any]:
    """What Metadata tells of a topic's partitions."""
    found = ask(address, ApiKey.METADATA, 12, {"topics": [{"name": topic}], "allow_auto_topic_creation": False})
    return sorted(found.topics[0].partitions, key=lambda partition: int(partition.partition_index))
