"""Records of a share group that are acknowledged one by one: how many a second, beside real Kafka.

    python -m bench.shares                           # Odradek and a real Kafka 4.4, in turn
    python -m bench.shares --records 5000 --rounds 3 --only odradek

One member fetches 500 records at a time and sends a ShareAcknowledge for each of them, the next when it has the answer.
The client is the same for both and speaks raw requests; it runs on the same machine, and its work is counted in.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

from tests.oracle.client import Client
from tests.oracle.requests import build_request

from bench.brokers import Running, running
from odradek.records.record import Record, build_batch
from odradek.wire.errors import ErrorCode
from odradek.wire.registry import ApiKey

__all__ = ["measured"]

BATCH = 500
ACCEPT = 1
GROUP_RESOURCE = 32
JOIN_LIMIT_S = 60.0
PEERS_OF_GROUPS = ("odradek", "kafka")


class Member:
    """A member of one share group that reads t-0."""

    def __init__(self, bootstrap: str, name: str) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.client = Client((host, int(port)))
        self.group = f"group-{name}"
        self.topic = f"topic-{name}"
        self.topic_id = b""
        self.epoch = 0

    def ask(self, api: ApiKey, version: int, fields: dict[str, Any]) -> Any:
        self.client.send(api, version, build_request(api, fields))
        return self.client.receive(timeout_s=JOIN_LIMIT_S)

    def join(self, records: int) -> None:
        """A topic with so many records of 100 bytes, of which the group begins with the first."""
        topic = {"name": self.topic, "num_partitions": 1, "replication_factor": 1}
        self.topic_id = self.ask(ApiKey.CREATE_TOPICS, 7, {"topics": [topic], "timeout_ms": 30000}).topics[0].topic_id
        config = {"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}
        resource = {"resource_type": GROUP_RESOURCE, "resource_name": self.group, "configs": [config]}
        self.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource]})
        batch = build_batch([Record(timestamp=int(time.time() * 1000), value=b"v" * 100)] * BATCH)
        for _ in range(records // BATCH):
            self.until(self.produce, batch)
        self.until(self.assigned)

    def until(self, step: Any, *arguments: object) -> None:
        deadline = time.monotonic() + JOIN_LIMIT_S
        while not step(*arguments):
            assert time.monotonic() < deadline, f"{step.__name__} does not come about"
            time.sleep(0.1)

    def produce(self, batch: bytes) -> bool:
        data = [{"name": self.topic, "partition_data": [{"index": 0, "records": batch}]}]
        answer = self.ask(ApiKey.PRODUCE, 9, {"acks": -1, "timeout_ms": 5000, "topic_data": data})
        return bool(answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE)

    def assigned(self) -> bool:
        self.ask(ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": [self.group]})
        fields = {"group_id": self.group, "member_id": "m", "member_epoch": 0, "subscribed_topic_names": [self.topic]}
        answer = self.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, fields)
        return answer.assignment is not None and bool(answer.assignment.topic_partitions)

    def session(self, acknowledged: list[dict[str, Any]]) -> dict[str, Any]:
        partition = {"partition_index": 0, "acknowledgement_batches": acknowledged}
        topics = [{"topic_id": self.topic_id, "partitions": [partition]}]
        return {"group_id": self.group, "member_id": "m", "share_session_epoch": self.epoch, "topics": topics}

    def fetch(self) -> list[range]:
        limits = {"max_wait_ms": 1000, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": BATCH, "batch_size": BATCH}
        answer = self.ask(ApiKey.SHARE_FETCH, 2, self.session([]) | limits)
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        self.epoch += 1
        return [
            range(each.first_offset, each.last_offset + 1)
            for topic in answer.responses
            for partition in topic.partitions
            for each in partition.acquired_records
        ]

    def acknowledge(self, offset: int) -> None:
        said = {"first_offset": offset, "last_offset": offset, "acknowledge_types": [ACCEPT]}
        answer = self.ask(ApiKey.SHARE_ACKNOWLEDGE, 2, self.session([said]))
        assert answer.error_code == answer.responses[0].partitions[0].error_code == ErrorCode.NONE
        self.epoch += 1


def measured(bootstrap: str, records: int, name: str) -> float:
    """Records a second that one member has acknowledged one by one."""
    member = Member(bootstrap, name)
    member.join(records)
    done, began = 0, 0.0
    while done < records:
        for offsets in member.fetch():
            began = began or time.perf_counter()
            for offset in offsets:
                member.acknowledge(offset)
                done += 1
    seconds = time.perf_counter() - began
    member.client.close()
    return done / seconds


def cpu_seconds(broker: Running) -> float:
    """What the broker's process has used of the processors so far."""
    fields = Path(f"/proc/{broker.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def main() -> None:
    parser = argparse.ArgumentParser(description="Records of a share group acknowledged one by one.")
    parser.add_argument("--records", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=PEERS_OF_GROUPS)
    arguments = parser.parse_args()
    for peer in PEERS_OF_GROUPS:
        if arguments.only not in (None, peer):
            continue
        with running(peer) as broker:
            measured(broker.bootstrap, BATCH, f"{peer}-warm-up")
            cpu = cpu_seconds(broker)
            rates = [
                measured(broker.bootstrap, arguments.records, f"{peer}-{turn}") for turn in range(arguments.rounds)
            ]
            cpu = (cpu_seconds(broker) - cpu) / (arguments.records * arguments.rounds)
        told = ", ".join(f"{rate:,.0f}" for rate in rates)
        print(f"{peer}: median {statistics.median(rates):,.0f} records/s ({told}), {cpu * 1e6:,.0f} us of CPU each")


if __name__ == "__main__":
    main()
