"""The copy over TLS with a login: Spark's connector, librdkafka's producers and consumers, all by one file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.pipeline.secured import odradek

from odradek_pipeline.spark.session import connector_jars

pytestmark = [
    pytest.mark.client,
    pytest.mark.skipif(not connector_jars(), reason="Spark's Kafka connector is not there: make pipeline-jars"),
]


def test_a_copy_over_tls(tmp_path: Path) -> None:
    with odradek(tmp_path, version=2) as running:
        admin = AdminClient({"bootstrap.servers": running.plain})
        for created in admin.create_topics([NewTopic("copied", 1, 1)]).values():
            created.result()
        producer = Producer({"bootstrap.servers": running.plain, "log_level": 2})
        for number in range(20):
            producer.produce("orders", value=str(number))
        producer.flush(30)
        words = ["--bootstrap", running.bootstrap, "--source", "orders", "--target", "copied", "--once"]
        words += ["--checkpoint", str(tmp_path / "point"), "--audit", str(tmp_path / "audit"), "--master", "local[1]"]
        command = [sys.executable, "-m", "odradek", "copy", *words, "--command-config"]
        done = subprocess.run(
            [*command, running.file(tmp_path, "alice", "SCRAM-SHA-256")],
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        assert 0 == done.returncode, done.stderr
        assert "alice-secret" not in done.stdout + done.stderr
        wrong = tmp_path / "wrong.properties"
        wrong.write_text((tmp_path / "alice.properties").read_text().replace("alice-secret", "wrong"))
        done = subprocess.run([*command, wrong], capture_output=True, text=True, check=False, timeout=900)
        assert (2, 1) == (done.returncode, len(done.stderr.splitlines())), done.stderr
