"""A Produce request by hand: what a client library would never send."""

from __future__ import annotations

import socket

from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.messages.produce_response import ProduceResponse
from odradek.wire.messages.request_header import RequestHeader
from odradek.wire.registry import decode, encode

__all__ = ["produce_raw"]

VERSION = 11


def produce_raw(bootstrap: str, transactional_id: str | None, topic: str, partition: int, batch: bytes) -> int:
    """Send one batch with Produce v11, the last in which the broker adds no partition (KIP-890); the error code."""
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
        ],
    )
    header = RequestHeader(request_api_key=0, request_api_version=VERSION, correlation_id=1, client_id="late")
    message = encode(header, 2) + encode(request, VERSION)
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(len(message).to_bytes(4) + message)
        with connection.makefile("rb") as stream:
            answer = stream.read(int.from_bytes(stream.read(4)))
    response = decode(
        ProduceResponse, memoryview(answer)[5:], VERSION
    )  # behind correlation id and an empty tag section
    return response.responses[0].partition_responses[0].error_code
