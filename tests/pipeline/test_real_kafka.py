"""Against a living Kafka, where ODRADEK_REAL_KAFKA=1 asks for it (Maven, half a minute)."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.oracle.real_kafka import RealKafka
from tests.pipeline.record_logs import late_batch, tool, transactions

from odradek_pipeline.jobs.audit_logs import audit_logs
from odradek_pipeline.watch.running import Settings, watch_cluster

pytestmark = pytest.mark.skipif(not os.environ.get("ODRADEK_REAL_KAFKA"), reason="needs ODRADEK_REAL_KAFKA=1")


def test_a_live_directory_tells_what_find_hanging_tells() -> None:
    with RealKafka(transaction_version=1, properties={"transaction.partition.verification.enable": "false"}) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        for created in admin.create_topics([NewTopic("orders", 3, 1)]).values():
            created.result()
        producer = transactions(kafka.bootstrap, "shop", count=9)
        directory = kafka.directory / "data"
        before = audit_logs([directory])
        assert {} == before.counts()
        assert [] == [found for found in before.problems if found.severity == "bad"]
        assert 0 == late_batch(kafka, "shop")
        (young,) = audit_logs([directory]).anomalies.to_dict("records")
        assert ("txn-hanging", "info") == (young["anomaly"], young["severity"])  # the broker runs, and it is young
        told = tool(
            kafka, "TransactionsCommand", "--bootstrap-server", kafka.bootstrap, "find-hanging", "--broker-id", "1",
            "--max-transaction-timeout", "0",
        )  # fmt: skip
        kafka.stop()
        (row,) = audit_logs([directory]).anomalies.to_dict("records")
        headings, line = ([cell.strip() for cell in text.split("\t")] for text in told.splitlines())
        kafkas = dict(zip(headings, line, strict=True))
        assert ("txn-hanging", "bad") == (row["anomaly"], row["severity"])
        assert (kafkas["Topic"], kafkas["Partition"], kafkas["ProducerId"], kafkas["StartOffset"]) == (
            row["topic"], str(row["partition"]), str(row["producer_id"]), str(row["offset"]),
        )  # fmt: skip
        del producer


def test_a_watch_names_what_hangs_and_its_command_ends_it(tmp_path: Path) -> None:
    with RealKafka(transaction_version=1, properties={"transaction.partition.verification.enable": "false"}) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        for created in admin.create_topics([NewTopic("orders", 3, 1)]).values():
            created.result()
        producer = transactions(kafka.bootstrap, "shop", count=9)
        once = Settings(kafka.bootstrap, tmp_path, once=True)
        assert 0 == watch_cluster(once)
        producer.begin_transaction()
        producer.produce("orders", value=b"open", partition=1)
        producer.flush()
        assert 0 == watch_cluster(once)  # under way is not hanging
        producer.abort_transaction(30)
        assert 0 == late_batch(kafka, "shop")
        began = time.monotonic()
        assert 1 == watch_cluster(once)
        assert time.monotonic() - began < 10
        (line,) = (tmp_path / "incidents.jsonl").read_text().splitlines()
        told = json.loads(line)
        assert ("hanging-transaction", "shop", "orders", 0) == (
            told["incident"], told["transactional_id"], told["topic"], told["partition"],
        )  # fmt: skip
        kafka.kill()
        kafka.start()
        assert 1 == watch_cluster(once)  # a restart of either neither forgets nor repeats it
        assert 1 == len((tmp_path / "incidents.jsonl").read_text().splitlines())
        (command,) = told["run"]
        tool(kafka, "TransactionsCommand", *command.split()[1:])
        assert 1 == watch_cluster(once)  # this run sees it end
        assert 0 == watch_cluster(once)
        closed = json.loads((tmp_path / "incidents.jsonl").read_text().splitlines()[-1])
        assert (told["key"], True) == (closed["key"], closed["closed_ms"] > 0)
