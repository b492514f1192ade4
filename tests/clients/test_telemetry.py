"""Real clients push metrics of theirs to a broker that asks for them (KIP-714)."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from tests.clients.driver import play, tool
from tests.clients.lacking import with_toolchains

from odradek.testing import Cluster

pytestmark = [pytest.mark.client, pytest.mark.slow]

METRICS = "org.apache.kafka.tools.ClientMetricsCommand"
CONFIGS = "kafka.admin.ConfigCommand"
TIMES = 3


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """One that asks every client for everything, as an operator tells it to."""
    with Cluster(config={"odradek.telemetry": True}, topics=["t"]) as cluster:
        with with_toolchains("tools"):
            arguments = ["--name", "all", "--metrics", "*", "--interval", "100", "--match", "client_id=.*"]
            said = tool(METRICS, "--bootstrap-server", cluster.bootstrap, "--alter", *arguments)
        assert "Altered client metrics config for all." in said
        yield cluster


def test_the_java_client(cluster: Cluster) -> None:
    """A producer and a consumer, which lives for some intervals, and says so when it closes."""
    with with_toolchains("java"):
        for attempt in range(TIMES):  # a producer that is done within its first interval has pushed nothing
            assert play("java", "idempotent", cluster.bootstrap, topic=f"written-{attempt}", records=20_000).ok
            if any(push.values("org.apache.kafka.producer.") for push in cluster.telemetry()):
                break
    for kind, terminating in (("producer", None), ("consumer", True)):
        last = cluster.wait_for_telemetry(f"org.apache.kafka.{kind}.", terminating=terminating)
        assert "apache-kafka-java" == last.client_software_name
        assert "zstd" == last.compression
        assert last.content.bytes > last.compressed_bytes
        pushes = [each for each in cluster.telemetry() if each.client_instance_id == last.client_instance_id]
        assert {last.subscription_id} == {each.subscription_id for each in pushes}


def test_librdkafka(cluster: Cluster) -> None:
    told = {"bootstrap.servers": cluster.bootstrap, "enable.metrics.push": True}
    producer = Producer({**told, "client.id": "writes"})
    producer.produce("t", b"v")
    assert 0 == producer.flush(30)
    consumer = Consumer({**told, "client.id": "reads", "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    message = consumer.poll(30)
    assert message is not None
    assert message.error() is None
    for client_id, metric in (("writes", "org.apache.kafka.producer."), ("reads", "org.apache.kafka.consumer.")):
        push = cluster.wait_for_telemetry(metric, client_id=client_id, terminating=False, timeout_s=30)
        assert "confluent-kafka-python" == push.client_software_name
    consumer.close()
    assert "reads" == cluster.wait_for_telemetry(client_id="reads", terminating=True, timeout_s=30).client_id
    del producer


def test_the_tools_for_metrics_and_loggers(cluster: Cluster) -> None:
    def run(java_class: str, *arguments: str) -> str:
        return tool(java_class, "--bootstrap-server", cluster.bootstrap, *arguments)

    with with_toolchains("tools"):
        assert "all" in run(METRICS, "--list").split()
        described = run(METRICS, "--describe", "--name", "all")
        assert {"interval.ms=100", "metrics=*", "match=client_id=.*"} <= set(described.split())
        entity = ["--entity-type", "client-metrics", "--entity-name", "all"]
        run(CONFIGS, "--alter", *entity, "--add-config", "interval.ms=5000")
        assert "interval.ms=5000" in run(CONFIGS, "--describe", *entity)
        run(METRICS, "--delete", "--name", "all")
        assert "all" not in run(METRICS, "--list").split()

        entity = ["--entity-type", "broker-loggers", "--entity-name", "1"]
        assert "kafka.request.logger=ERROR" in run(CONFIGS, "--describe", *entity)
        run(CONFIGS, "--alter", *entity, "--add-config", "kafka.request.logger=FATAL")
        assert "kafka.request.logger=FATAL" in run(CONFIGS, "--describe", *entity)
        run(CONFIGS, "--alter", *entity, "--delete-config", "kafka.request.logger")
        assert "kafka.request.logger=ERROR" in run(CONFIGS, "--describe", *entity)
