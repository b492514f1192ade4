"""Kafka's own consumer reads over the batches without records of `tests/net/test_empty_batches.py`."""

from __future__ import annotations

import pytest
from tests.clients.driver import tool
from tests.clients.lacking import with_toolchains
from tests.net.test_empty_batches import READ, compacted

pytestmark = [pytest.mark.client, pytest.mark.slow]


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_java(isolation: str) -> None:
    with compacted() as cluster, with_toolchains("kafka-tools"):
        consumed = tool(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", cluster.bootstrap, "--topic", "t", "--from-beginning"),
            *("--max-messages", str(len(READ)), "--timeout-ms", "20000", "--isolation-level", isolation),
            *("--consumer-property", "max.partition.fetch.bytes=70"),
            *("--formatter-property", "print.offset=true"),
        )
    read = [line.split("\t") for line in consumed.splitlines() if line.startswith("Offset:")]
    assert READ == [(int(offset.removeprefix("Offset:")), value.encode()) for offset, value in read]
