"""What healthy clusters do, on a real Kafka: `python -m tests.pipeline.corpus.situations [NAME…]` records it.

Each situation becomes one small archive below `tests/pipeline/data/healthy`: the log directories of one cluster, after
something that looks odd and is not. An audit that calls any of them bad is wrong.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Producer, TopicPartition
from tests.oracle.asking import ask
from tests.oracle.real_kafka import RealKafka
from tests.pipeline.corpus.kafkas import (
    STARTED,
    Situation,
    admin,
    create,
    done,
    keep,
    plain,
    started,
    stopped,
)
from tests.pipeline.corpus.situations_of_clients import OF_CLIENTS
from tests.pipeline.corpus.situations_of_clusters import CLUSTERS
from tests.pipeline.corpus.situations_of_groups import OF_GROUPS
from tests.pipeline.corpus.situations_of_newer_groups import OF_NEWER_GROUPS
from tests.pipeline.corpus.situations_of_operation import OF_OPERATION
from tests.pipeline.record_logs import java_transactions, transactions

from odradek.wire.registry import ApiKey

HEALTHY = Path(__file__).parents[1] / "data" / "healthy"


def level_0() -> list[RealKafka]:
    kafka = started(0)
    create(kafka, "orders", 3)
    create(kafka, "plain")
    plain(kafka, "plain", 20)
    transactions(kafka.bootstrap, "shop", count=9, copy_from="plain")
    return stopped(kafka)


def java_level_2_clean_stop() -> list[RealKafka]:
    kafka = started(2)
    create(kafka, "orders", 3)
    java_transactions(kafka, "shop", 12, leave_open=False)
    return stopped(kafka)


def java_level_1_killed() -> list[RealKafka]:
    kafka = started(1)
    create(kafka, "orders", 3)
    java_transactions(kafka, "shop", 6, leave_open=True)
    kafka.kill()
    return [kafka]


def retention() -> list[RealKafka]:
    kafka = started(1, log_retention_check_interval_ms="500", log_segment_delete_delay_ms="0")
    create(kafka, "orders", 3, segment_ms="300", retention_ms="1500")
    create(kafka, "plain", segment_ms="300", retention_ms="1500")
    for number in range(5):
        transactions(kafka.bootstrap, f"shop-{number % 2}", count=3)
        plain(kafka, "plain", 3, **{"enable.idempotence": True})
        time.sleep(0.8)
    return stopped(kafka)


def deleted_records() -> list[RealKafka]:
    kafka = started(2)
    create(kafka, "orders", 3, segment_ms="300")
    for _ in range(2):
        java_transactions(kafka, "shop", 6, leave_open=False)
    client = admin(kafka)
    done(client.delete_records([TopicPartition("orders", 0, 10), TopicPartition("orders", 1, 30)]))
    java_transactions(kafka, "shop", 3, leave_open=False)
    return stopped(kafka)


def compacted_and_deleted() -> list[RealKafka]:
    fast = {"log_cleaner_backoff_ms": "200", "log_retention_check_interval_ms": "500"}
    kafka = started(1, log_segment_delete_delay_ms="0", **fast)
    settings: dict[str, Any] = {"segment_ms": "300", "min_cleanable_dirty_ratio": "0.001", "retention_ms": "3000"}
    create(kafka, "orders", 3, cleanup_policy="compact,delete", delete_retention_ms="1", **settings)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "shop", "linger.ms": 0})
    producer.init_transactions(30)
    for number in range(20):
        producer.begin_transaction()
        for key in range(2):
            producer.produce("orders", key=f"k{key}", value=str(number), partition=number % 2)
        producer.flush()
        producer.abort_transaction(30) if number % 4 == 3 else producer.commit_transaction(30)
        time.sleep(0.25)
    time.sleep(1.5)
    return stopped(kafka)


def level_goes_up_and_down() -> list[RealKafka]:
    kafka = started(0)
    create(kafka, "orders", 3)
    for level in (2, 1, 0):
        java_transactions(kafka, "shop", 4, leave_open=False)
        transactions(kafka.bootstrap, "till", count=3)
        if level:
            kind = 1 if level == 2 else 2  # upgrade, safe downgrade
            update = {"feature": "transaction.version", "max_version_level": level, "upgrade_type": kind}
            ask(("127.0.0.1", kafka.port), ApiKey.UPDATE_FEATURES, 1, {"feature_updates": [update], "timeout_ms": 9000})
            time.sleep(1)
    return stopped(kafka)


def restarts() -> list[RealKafka]:
    """Leader epochs grow; an unclean stop in between, whose logs are recovered."""
    kafka = started(2)
    create(kafka, "orders", 3)
    create(kafka, "plain")
    for how in (kafka.stop, kafka.kill, kafka.stop):
        java_transactions(kafka, "shop", 3, leave_open=False)
        plain(kafka, "plain", 4)
        how()
        kafka.start()
    plain(kafka, "plain", 4)
    return stopped(kafka)


def killed_with_open_transactions() -> list[RealKafka]:
    kafka = started(1)
    create(kafka, "orders", 3)
    producers = [transactions(kafka.bootstrap, f"shop-{number}", count=2) for number in range(3)]
    for number, producer in enumerate(producers):
        producer.begin_transaction()
        producer.produce("orders", value="open", partition=number)
        producer.flush()
    kafka.kill()
    return [kafka]


def timed_out() -> list[RealKafka]:
    kafka = started(1, transaction_abort_timed_out_transaction_cleanup_interval_ms="300")
    create(kafka, "orders", 3)
    options = {"bootstrap.servers": kafka.bootstrap, "transactional.id": "slow", "transaction.timeout.ms": 1000}
    producer = Producer(options)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("orders", value="too late", partition=0)
    producer.flush()
    time.sleep(3)
    try:
        producer.commit_transaction(10)
    except KafkaException as refused:
        print("refused, as it should be:", refused.args[0].name())
    transactions(kafka.bootstrap, "slow", count=2)
    return stopped(kafka)


def fenced() -> list[RealKafka]:
    kafka = started(1)
    create(kafka, "orders", 3)
    for _ in range(4):
        zombie = transactions(kafka.bootstrap, "shop", count=1)
        zombie.begin_transaction()
        zombie.produce("orders", value="fenced", partition=1)
        zombie.flush()
    transactions(kafka.bootstrap, "shop", count=1)
    return stopped(kafka)


def deleted_topic() -> list[RealKafka]:
    kafka = started(2, log_segment_delete_delay_ms="600000")
    create(kafka, "orders", 3)
    java_transactions(kafka, "shop", 3, leave_open=False)
    client = admin(kafka)
    done(client.delete_topics(["orders"]))
    time.sleep(1)
    create(kafka, "orders", 3)
    java_transactions(kafka, "shop", 3, leave_open=False)
    kafka.kill()
    return [kafka]


def live() -> list[RealKafka]:
    """Copied while the broker runs: no mark of a clean stop, indexes allocated in advance, checkpoints behind."""
    kafka = started(2)
    create(kafka, "orders", 3)
    create(kafka, "plain")
    plain(kafka, "plain", 10)
    java_transactions(kafka, "shop", 6, leave_open=False)
    copied = kafka.directory / "copied"
    shutil.copytree(kafka.directory / "data", copied)
    kafka.kill()
    shutil.rmtree(kafka.directory / "data")
    copied.rename(kafka.directory / "data")
    return [kafka]


def codecs() -> list[RealKafka]:
    kafka = started(2)
    create(kafka, "plain")
    create(kafka, "again", compression_type="zstd")
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        for topic in ("plain", "again"):
            plain(kafka, topic, 3, **{"compression.type": codec, "enable.idempotence": codec != "gzip"})
    return stopped(kafka)


ALONE = (
    level_0,
    java_level_2_clean_stop,
    java_level_1_killed,
    retention,
    deleted_records,
    compacted_and_deleted,
    level_goes_up_and_down,
    restarts,
    killed_with_open_transactions,
    timed_out,
    fenced,
    deleted_topic,
    live,
    codecs,
)
SITUATIONS: dict[str, Situation] = {
    one.__name__: one for one in (*ALONE, *OF_GROUPS, *CLUSTERS, *OF_NEWER_GROUPS, *OF_OPERATION)
} | OF_CLIENTS


def main(names: list[str]) -> None:
    for name in names or SITUATIONS:
        try:
            nodes = SITUATIONS[name]()
        except Exception as error:  # the others are recorded all the same
            print("failed", name, repr(error)[:300], flush=True)
        else:
            keep(nodes, HEALTHY / f"{name}.tar.gz")
            print("recorded", name, (HEALTHY / f"{name}.tar.gz").stat().st_size, flush=True)
        while STARTED:
            node = STARTED.pop()
            node.kill()
            node.remove()


if __name__ == "__main__":
    main(sys.argv[1:])
