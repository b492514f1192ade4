"""What healthy clusters do, on a real Kafka: `python -m tests.pipeline.corpus.situations [NAME…]` records it.

Each situation becomes one small archive below `tests/pipeline/data/healthy`: the log directories of one cluster, after
something that looks odd and is not. An audit that calls any of them bad is wrong.
"""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from io import BytesIO
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)
from confluent_kafka.cimpl import NewTopic
from tests.oracle.brokers import ask
from tests.oracle.real_kafka import RealKafka
from tests.pipeline.record_logs import java_transactions, transactions, trim

from odradek.wire.registry import ApiKey

HEALTHY = Path(__file__).parents[1] / "data" / "healthy"
QUIET = {"metadata.max.idle.interval.ms": "0", "log.index.size.max.bytes": "4096", "log.index.interval.bytes": "512"}
SMALL_JVM = ("-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
STARTED: list[RealKafka] = []
"""All of one situation, so that none is left running."""
_LEFT_OUT = (".lock", ".deleted", ".tmp")
Situation = Callable[[], "list[RealKafka]"]


class OtherNode(RealKafka):
    """A broker beside the first, which is the controller."""

    def __init__(self, first: RealKafka, node_id: int, cluster_id: str, properties: Mapping[str, str]) -> None:
        self.first, self.cluster_id = first, cluster_id
        properties = {**properties, "node.id": str(node_id), "process.roles": "broker"}
        super().__init__(properties=properties, jvm_options=SMALL_JVM, start_timeout_s=240)
        STARTED.append(self)
        self.properties["controller.quorum.voters"] = first.properties["controller.quorum.voters"]
        self.properties["listeners"] = f"PLAINTEXT://127.0.0.1:{self.port}"

    def format(self) -> None:
        arguments = ["format", "--cluster-id", self.cluster_id, "--config", str(self.directory / "server.properties")]
        subprocess.run(self.command("kafka.tools.StorageTool", *arguments, level="WARN"), check=True)


def started(level: int = 2, **properties: str) -> RealKafka:
    """One broker."""
    named = {name.replace("_", "."): value for name, value in properties.items()}
    kafka = RealKafka(transaction_version=level, properties=QUIET | named, jvm_options=SMALL_JVM, start_timeout_s=240)
    STARTED.append(kafka)
    kafka.start()
    return kafka


def admin(kafka: RealKafka) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka.bootstrap})


def done(futures: Mapping[Any, Future[Any]]) -> None:
    for future in futures.values():
        future.result()


def create(kafka: RealKafka, name: str, partitions: int = 1, replicas: int = 1, **config: Any) -> None:
    named = {key.replace("_", "."): value for key, value in config.items()}
    client = admin(kafka)  # kept: without it nobody would wait for the answers
    done(client.create_topics([NewTopic(name, partitions, replicas, config=named)]))


def configure(kafka: RealKafka, topic: str, **config: str) -> None:
    entries = [
        ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for key, value in config.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    client = admin(kafka)
    done(client.incremental_alter_configs([resource]))


def plain(kafka: RealKafka, topic: str, count: int, **options: Any) -> None:
    """Batches of one record each."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 0, **options})
    for number in range(count):
        producer.produce(topic, value=f"{topic}-{number}-" + "x" * 40, partition=0)
        producer.flush()


def stopped(kafka: RealKafka) -> list[RealKafka]:
    time.sleep(0.5)
    kafka.stop()
    return [kafka]


# ---------------------------------------------------------------------- one broker


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


def groups() -> list[RealKafka]:
    """Offsets committed inside and outside of transactions."""
    kafka = started(2)
    create(kafka, "orders", 3)
    create(kafka, "plain")
    plain(kafka, "plain", 10)
    transactions(kafka.bootstrap, "shop", count=6, copy_from="plain")
    options = {"bootstrap.servers": kafka.bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
    consumer = Consumer({**options, "isolation.level": "read_committed"})
    consumer.subscribe(["orders", "plain"])
    while consumer.poll(3) is not None:
        pass
    consumer.commit(asynchronous=False)
    consumer.close()
    return stopped(kafka)


def newer_groups() -> list[RealKafka]:
    """Groups of the consumer protocol (KIP-848), and credentials in the metadata log."""
    from confluent_kafka.admin._scram import (
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialAlteration,
        UserScramCredentialUpsertion,
    )

    kafka = started(2)
    create(kafka, "orders", 3)
    create(kafka, "plain")
    plain(kafka, "plain", 10)
    java_transactions(kafka, "shop", 4, leave_open=False)
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    told: list[UserScramCredentialAlteration] = [UserScramCredentialUpsertion("alice", info, b"alice-secret")]
    client = admin(kafka)
    done(client.alter_user_scram_credentials(told))
    options = {"bootstrap.servers": kafka.bootstrap, "group.id": "newer", "auto.offset.reset": "earliest"}
    consumer = Consumer({**options, "group.protocol": "consumer", "isolation.level": "read_committed"})
    consumer.subscribe(["orders", "plain"])
    deadline, polled = time.monotonic() + 90, 0
    while polled < 10 and time.monotonic() < deadline:
        polled += consumer.poll(1) is not None
    consumer.commit(asynchronous=False)
    consumer.close()
    return stopped(kafka)


# ---------------------------------------------------------------------- three brokers


def cluster(**properties: str) -> list[RealKafka]:
    """Three brokers; the first is the controller as well."""
    named = {
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
        "min.insync.replicas": "2",
        "default.replication.factor": "3",
        "replica.high.watermark.checkpoint.interval.ms": "300",
        "replica.lag.time.max.ms": "3000",
        **{name.replace("_", "."): value for name, value in properties.items()},
    }
    first = started(2, **{name.replace(".", "_"): value for name, value in named.items()})
    properties_file = first.directory / "data" / "meta.properties"
    settings = dict(line.split("=", 1) for line in properties_file.read_text().splitlines() if "=" in line)
    nodes = [first]
    for node_id in (2, 3):
        node = OtherNode(first, node_id, settings["cluster.id"], QUIET | named)
        node.start()
        nodes.append(node)
    deadline = time.monotonic() + 60
    client = admin(first)
    while len(client.list_topics(timeout=10).brokers) < 3 and time.monotonic() < deadline:
        time.sleep(0.3)
    return nodes


def three_brokers() -> list[RealKafka]:
    nodes = cluster()
    create(nodes[0], "orders", 3, 3)
    create(nodes[0], "plain", 1, 3)
    java_transactions(nodes[0], "shop", 6, leave_open=False)
    plain(nodes[0], "plain", 5)
    time.sleep(1)
    for node in (nodes[2], nodes[1], nodes[0]):
        node.stop()
    return nodes


def a_broker_falls_behind() -> list[RealKafka]:
    """One is killed and comes back; another one is killed for good: its replicas end earlier."""
    nodes = cluster()
    create(nodes[0], "orders", 3, 3)
    create(nodes[0], "plain", 1, 3)
    java_transactions(nodes[0], "shop", 3, leave_open=False)
    nodes[1].kill()
    plain(nodes[0], "plain", 3)
    nodes[1].start()
    time.sleep(6)
    nodes[2].kill()
    java_transactions(nodes[0], "shop", 3, leave_open=False)
    plain(nodes[0], "plain", 3)
    time.sleep(1)
    nodes[1].stop()
    nodes[0].stop()
    return nodes


def reassigned() -> list[RealKafka]:
    """Partitions move from one broker to another while they are written to."""
    nodes = cluster()
    create(nodes[0], "orders", 3, 1)
    java_transactions(nodes[0], "shop", 4, leave_open=False)
    leaders = {
        number: one.leader for number, one in admin(nodes[0]).list_topics("orders").topics["orders"].partitions.items()
    }
    moves = [
        {"partition_index": number, "replicas": [leader % 3 + 1, (leader + 1) % 3 + 1]}
        for number, leader in leaders.items()
    ]
    fields = {"timeout_ms": 9000, "topics": [{"name": "orders", "partitions": moves}]}
    answer = ask(("127.0.0.1", nodes[0].port), ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, fields)
    assert answer.error_code == 0, answer
    java_transactions(nodes[0], "shop", 4, leave_open=False)
    time.sleep(3)
    for node in (nodes[2], nodes[1], nodes[0]):
        node.stop()
    return nodes


SITUATIONS: dict[str, Situation] = {
    one.__name__: one
    for one in (
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
        groups,
        newer_groups,
        three_brokers,
        a_broker_falls_behind,
        reassigned,
    )
}


def keep(nodes: list[RealKafka], path: Path) -> None:
    """The log directories of all nodes as one archive, each below `broker-N`."""
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for number, node in enumerate(nodes, 1):
            data = node.directory / "data"
            trim(data)
            for file in sorted(one for one in data.rglob("*") if one.is_file() and not one.name.endswith(_LEFT_OUT)):
                if file.relative_to(data).parts[0].startswith("__share"):
                    continue
                information = archive.gettarinfo(file, f"broker-{number}/{file.relative_to(data)}")
                information.mtime, information.uid, information.gid = 0, 0, 0
                information.uname = information.gname = ""
                with file.open("rb") as content:
                    archive.addfile(information, content)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(buffer.getvalue(), 9, mtime=0))


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
