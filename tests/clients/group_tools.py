"""Kafka's own tools for groups, told the same on a real Kafka and here: `python -m tests.clients.group_tools` records.

Groups of all kinds stand on the broker, with members of raw requests whose names are chosen: what the tools print is
the same each time, but for what `told` replaces. What a real Apache Kafka 4.4.0 made them print is in
`kafka-tools/groups.txt`; `test_group_tools.py` has them print it again.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from tests.clients.toolchain import JAVA, jars, java_classes
from tests.oracle.client import Client
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requests import build_request

from odradek.records.record import Record, build_batch
from odradek.wire.errors import ErrorCode
from odradek.wire.registry import ApiKey

__all__ = ["RECORDED", "Tools", "played"]

HERE = Path(__file__).parent / "kafka-tools"
RECORDED = HERE / "groups.txt"
END = "\x04"
AFTER_THE_END = "\x05"
USAGE = "Option  Description"
LIMIT_S = 60.0
GROUP_RESOURCE = 32
OLD = 1_700_000_000_000
"""Of the records: retention has dropped them by the time that the tools ask for offsets, or is about to."""

CLASSES = {
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
}

WITH_MEMBERS = (
    "kafka-groups --list",
    "kafka-groups --list --consumer",
    "kafka-groups --list --share",
    "kafka-groups --list --streams",
    "kafka-groups --list --group-type classic",
    "kafka-groups --list --protocol anything",
    "kafka-consumer-groups --list",
    "kafka-consumer-groups --list --state",
    "kafka-consumer-groups --list --state Stable",
    "kafka-consumer-groups --list --state Nonsense",
    "kafka-consumer-groups --list --type",
    "kafka-consumer-groups --list --type consumer",
    "kafka-consumer-groups --list --type share",
    "kafka-consumer-groups --list --state Empty --type classic",
    "kafka-consumer-groups --describe --group modern",
    "kafka-consumer-groups --describe --group modern --verbose",
    "kafka-consumer-groups --describe --group modern --members",
    "kafka-consumer-groups --describe --group modern --members --verbose",
    "kafka-consumer-groups --describe --group modern --state",
    "kafka-consumer-groups --describe --group modern --state --verbose",
    "kafka-consumer-groups --describe --group old",
    "kafka-consumer-groups --describe --group old --members --verbose",
    "kafka-consumer-groups --describe --group old --state",
    "kafka-consumer-groups --describe --group sharers",
    "kafka-consumer-groups --describe --group words --state",
    "kafka-consumer-groups --describe --group nobody",
    "kafka-consumer-groups --describe --all-groups",
    "kafka-consumer-groups --delete --group modern",
    "kafka-consumer-groups --delete-offsets --group modern --topic orders",
    "kafka-consumer-groups --delete-offsets --group modern --topic other",
    "kafka-consumer-groups --reset-offsets --group modern --topic orders --to-earliest --execute",
    "kafka-share-groups --list",
    "kafka-share-groups --list --state",
    "kafka-share-groups --list --state Stable",
    "kafka-share-groups --describe --group sharers",
    "kafka-share-groups --describe --group sharers --verbose",
    "kafka-share-groups --describe --group sharers --members",
    "kafka-share-groups --describe --group sharers --members --verbose",
    "kafka-share-groups --describe --group sharers --state",
    "kafka-share-groups --describe --group sharers --state --verbose",
    "kafka-share-groups --describe --group modern",
    "kafka-share-groups --describe --group nobody",
    "kafka-share-groups --delete --group sharers",
    "kafka-share-groups --delete-offsets --group sharers --topic orders",
    "kafka-share-groups --reset-offsets --group sharers --topic orders --to-earliest --execute",
    "kafka-streams-groups --list",
    "kafka-streams-groups --list --state",
    "kafka-streams-groups --describe --group words --members",
    "kafka-streams-groups --describe --group words --members --verbose",
    "kafka-streams-groups --describe --group words --state",
    "kafka-streams-groups --describe --group words --state --verbose",
    "kafka-streams-groups --describe --group modern",
    "kafka-streams-groups --describe --group nobody",
    "kafka-streams-groups --delete --group words",
    "kafka-streams-groups --delete-offsets --group words --input-topic orders",
    "kafka-streams-groups --reset-offsets --group words --input-topic orders --to-earliest --execute",
)
"""What is asked while all members are there."""

OF_SHARERS = "--entity-type groups --entity-name sharers"
OF_THE_QUEUE = "--entity-type topics --entity-name other"
OF_BROKERS = "--entity-type brokers --entity-default"
DEAD_LETTERS = (
    f"kafka-configs --describe {OF_SHARERS}",
    f"kafka-configs --describe --all {OF_SHARERS}",
    f"kafka-configs --alter {OF_SHARERS} --add-config errors.deadletterqueue.topic.name=other",
    f"kafka-configs --alter {OF_SHARERS} --add-config errors.deadletterqueue.copy.record.enable=true",
    f"kafka-configs --alter {OF_SHARERS} --add-config errors.deadletterqueue.copy.record.enable=maybe",
    f"kafka-configs --alter {OF_SHARERS} --add-config errors.deadletterqueue.topic=other",
    f"kafka-configs --alter {OF_SHARERS} --add-config errors.deadletterqueue.topic.name.prefix=dead.",
    f"kafka-configs --describe {OF_SHARERS}",
    "kafka-configs --describe --group sharers",
    "kafka-configs --describe --entity-type groups",
    f"kafka-configs --alter {OF_THE_QUEUE} --add-config errors.deadletterqueue.group.enable=true",
    f"kafka-configs --alter {OF_THE_QUEUE} --add-config errors.deadletterqueue.group.enable=yes",
    f"kafka-configs --describe {OF_THE_QUEUE}",
    f"kafka-configs --alter {OF_BROKERS} --add-config errors.deadletterqueue.topic.name.prefix=",
    f"kafka-configs --alter {OF_BROKERS} --add-config errors.deadletterqueue.auto.create.topics.enable=true",
    f"kafka-configs --alter {OF_BROKERS} --add-config group.share.dlq.manager.class.name=NoSuchClass",
    f"kafka-configs --describe {OF_BROKERS}",
    "kafka-share-groups --describe --group sharers --state",
    "kafka-share-groups --describe --group sharers --members --verbose",
    "kafka-groups --list --share",
    f"kafka-configs --alter {OF_SHARERS} --delete-config errors.deadletterqueue.topic.name",
    f"kafka-configs --alter {OF_SHARERS} --delete-config errors.deadletterqueue.topic.name",
    f"kafka-configs --alter {OF_BROKERS} --delete-config errors.deadletterqueue.topic.name.prefix",
    f"kafka-configs --describe {OF_SHARERS}",
    f"kafka-configs --describe {OF_BROKERS}",
)
"""Then a dead letter queue is set up and taken away again (KIP-1191)."""

WITHOUT_MEMBERS = (
    "kafka-groups --list",
    "kafka-consumer-groups --list --state",
    "kafka-consumer-groups --describe --group modern",
    "kafka-consumer-groups --describe --group modern --members",
    "kafka-consumer-groups --describe --group modern --state",
    "kafka-consumer-groups --reset-offsets --group modern --topic orders:0,2 --to-offset 99 --execute",
    "kafka-consumer-groups --reset-offsets --group modern --all-topics --to-current --dry-run",
    "kafka-consumer-groups --reset-offsets --group modern --topic orders --by-duration P10D --execute",
    (
        "kafka-consumer-groups --reset-offsets --group modern --topic orders --to-datetime 2030-01-01T00:00:00.000 "
        "--execute"
    ),
    "kafka-consumer-groups --reset-offsets --group old --topic orders --to-latest --execute --export",
    "kafka-consumer-groups --reset-offsets --group fresh --topic other --to-latest --execute",
    "kafka-consumer-groups --reset-offsets --group modern --topic missing --to-latest --execute",
    "kafka-consumer-groups --describe --all-groups",
    "kafka-consumer-groups --delete-offsets --group modern --topic orders:1 --topic other",
    "kafka-consumer-groups --delete-offsets --group modern --topic missing",
    "kafka-consumer-groups --delete-offsets --group nobody --topic orders",
    "kafka-consumer-groups --describe --group modern",
    "kafka-share-groups --describe --group sharers",
    "kafka-share-groups --describe --group sharers --members",
    "kafka-share-groups --describe --group sharers --state",
    "kafka-share-groups --reset-offsets --group sharers --topic orders --to-earliest",
    "kafka-share-groups --reset-offsets --group sharers --topic orders --to-latest --execute",
    "kafka-share-groups --describe --group sharers --verbose",
    "kafka-share-groups --reset-offsets --group sharers --topic missing --to-latest --execute",
    "kafka-share-groups --delete-offsets --group sharers --topic orders",
    "kafka-share-groups --delete-offsets --group sharers --topic other",
    "kafka-share-groups --delete-offsets --group sharers --topic missing",
    "kafka-share-groups --describe --group sharers",
    "kafka-streams-groups --describe --group words",
    "kafka-streams-groups --describe --group words --members",
    "kafka-streams-groups --describe --group words --state",
    "kafka-streams-groups --reset-offsets --group words --input-topic orders --to-earliest",
    "kafka-streams-groups --reset-offsets --group words --all-input-topics --to-latest --execute",
    "kafka-streams-groups --describe --group words --verbose",
    "kafka-streams-groups --delete-offsets --group words --input-topic orders:0",
    "kafka-streams-groups --delete-offsets --group words --input-topic missing",
    "kafka-streams-groups --describe --group words",
    "kafka-streams-groups --delete --group words",
    "kafka-streams-groups --delete --group nobody",
    "kafka-share-groups --delete --group sharers",
    "kafka-share-groups --delete --group nobody",
    "kafka-share-groups --delete --group modern",
    "kafka-consumer-groups --delete --group modern --group nobody",
    "kafka-consumer-groups --delete --all-groups",
    "kafka-groups --list",
)
"""And when they have left."""


class Tools:
    """The tools in one process, at one broker."""

    def __init__(self, bootstrap: str, source: IO[str], sink: IO[str]) -> None:
        self.bootstrap = bootstrap
        self._out, self._in = source, sink

    @classmethod
    @contextmanager
    def started(cls, bootstrap: str) -> Iterator[Tools]:
        libraries = jars(HERE / "pom.xml")
        classes = java_classes("kafka-tools", [HERE / "src" / "Tools.java"], libraries)
        command = [*JAVA, "-cp", classes, "Tools"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                yield cls(bootstrap, process.stdout, process.stdin)
            finally:
                process.stdin.close()
                process.kill()

    def run(self, command: str) -> str:
        """What it prints, and its exit code."""
        name, *arguments = command.split(" ")
        self._in.write("\t".join([CLASSES[name], "--bootstrap-server", self.bootstrap, *arguments]) + "\n")
        self._in.flush()
        lines: list[str] = []
        for line in self._out:
            if line.startswith(END):
                return told(lines, self.bootstrap) + f"\nexit code {line[1:].strip()}"
            lines.append(line)
        raise AssertionError(f"the tools have ended at {command}: {lines}")


def told(lines: Sequence[str], bootstrap: str) -> str:
    """What is printed, without what differs from one run to the next.

    That is ports, the width of columns, and the order of rows, which follows from hashes. The usage is left out, and
    one default that is another one here (docs/skipped.md).
    """
    plain = [re.sub(r"[ \t]{2,}", "  ", line.strip()) for line in lines if AFTER_THE_END not in line]
    kept = [DELAY.sub("...", line.replace(bootstrap, "BROKER")) for line in plain if line and not STACK.match(line)]
    if USAGE in kept:
        kept = [*kept[: kept.index(USAGE)], "(the usage)"]
    kept = [VALID.sub(lambda found: ", ".join(sorted(found[0].split(", "))), line) for line in kept]
    head = next((at for at, line in enumerate(kept) if line.startswith("GROUP")), len(kept) - 1)
    return "\n".join([*kept[: head + 1], *sorted(kept[head + 1 :])])


VALID = re.compile(r"(?<=Valid states are: ).*|(?<=Valid types are: ).*|(?<=groups \()'.*'(?=\))")
DELAY = re.compile(r"(?<=DEFAULT_CONFIG:group.streams.initial.rebalance.delay.ms=)\d+")
STACK = re.compile(r"at |\.\.\. \d+ more|\[main\] ")


class Stage:
    """Groups of all kinds and their members."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.address = host, int(port)
        self.client = Client(self.address)
        self.ids: dict[str, bytes] = {}
        self.epochs: dict[tuple[str, str], int] = {}

    def ask(self, api: ApiKey, version: int, fields: dict[str, Any], client_id: str = "oracle") -> Any:
        self.client.send(api, version, build_request(api, fields), client_id=client_id)
        return self.client.receive(timeout_s=LIMIT_S)

    def until(self, what: str, step: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not step():
            assert time.monotonic() < deadline, f"{what} does not come about"
            time.sleep(0.2)

    def set_up(self) -> None:
        topics = [{"name": name, "num_partitions": count, "replication_factor": 1} for name, count in TOPICS]
        made = self.ask(ApiKey.CREATE_TOPICS, 7, {"topics": topics, "timeout_ms": 30_000})
        self.ids = {topic.name: topic.topic_id for topic in made.topics}
        for name, count in TOPICS:
            for index in range(count):
                self.until("a record", lambda name=name, index=index: self.produced(name, index))  # type: ignore[misc]
        for group, key, value in CONFIGS:
            config = {"name": key, "config_operation": 0, "value": value}
            resource = {"resource_type": GROUP_RESOURCE, "resource_name": group, "configs": [config]}
            self.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource]})
        for group in ("modern", "old", "sharers", "words"):
            self.until("a coordinator", lambda group=group: self.coordinated(group))  # type: ignore[misc]
        self.until("the classic group", lambda: self.committed("old", "", -1, [("orders", 0, 4), ("other", 0, 1)]))
        self.until("two members", lambda: self.consumes("first", [0, 1]) and self.consumes("second", [2]))
        offsets = [("orders", 0, 4), ("orders", 1, 10)]
        self.until("offsets", lambda: self.committed("modern", "first", self.epochs["modern", "first"], offsets))
        self.until("a share", self.shares)
        self.until("a streams member", self.streams)
        offsets = [("orders", 0, 3), ("orders", 1, 7)]
        self.until("offsets", lambda: self.committed("words", "thread", self.epochs["words", "thread"], offsets))

    def produced(self, topic: str, index: int) -> bool:
        batch = build_batch([Record(timestamp=OLD, value=b"v")] * 10)
        data = [{"name": topic, "partition_data": [{"index": index, "records": batch}]}]
        answer = self.ask(ApiKey.PRODUCE, 9, {"acks": -1, "timeout_ms": 5000, "topic_data": data})
        return bool(answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE)

    def coordinated(self, group: str) -> bool:
        answer = self.ask(ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": [group]})
        fetched = self.ask(ApiKey.OFFSET_FETCH, 8, {"groups": [{"group_id": group, "topics": None}]})
        return not answer.coordinators[0].error_code and not fetched.groups[0].error_code

    def committed(self, group: str, member: str, epoch: int, offsets: Sequence[tuple[str, int, int]]) -> bool:
        topics = [
            {"name": topic, "partitions": [{"partition_index": index, "committed_offset": offset}]}
            for topic, index, offset in offsets
        ]
        fields = {"group_id": group, "member_id": member, "generation_id_or_member_epoch": epoch, "topics": topics}
        answer = self.ask(ApiKey.OFFSET_COMMIT, 9, fields)
        return all(not each.error_code for topic in answer.topics for each in topic.partitions)

    def consumes(self, member: str, wanted: Sequence[int]) -> bool:
        """A member of the consumer protocol that has told that it has these."""
        epoch = self.epochs.get(("modern", member), 0)
        owned = [{"topic_id": self.ids["orders"], "partitions": list(wanted)}] if epoch else []
        fields: dict[str, Any] = {"group_id": "modern", "member_id": member, "member_epoch": epoch}
        if not epoch:
            fields |= {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["orders"]}
        answer = self.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, {**fields, "topic_partitions": owned}, member)
        self.epochs["modern", member] = answer.member_epoch
        if member == "first":
            self.second_too = self.second_too or self.consumes("second", [2])
        return self.epochs["modern", "first"] == self.epochs["modern", "second"] == 3

    second_too = False

    def shares(self) -> bool:
        fields: dict[str, Any] = {"group_id": "sharers", "member_id": "sharer", "member_epoch": 0}
        fields["subscribed_topic_names"] = ["orders"]
        answer = self.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, fields, "sharing")
        return answer.assignment is not None and bool(answer.assignment.topic_partitions)

    def streams(self) -> bool:
        epoch = self.epochs.get(("words", "thread"), 0)
        tasks = [{"subtopology_id": "0", "partitions": [0, 1, 2]}] if epoch else []
        fields: dict[str, Any] = {"group_id": "words", "member_id": "thread", "member_epoch": epoch}
        fields |= {"active_tasks": tasks, "standby_tasks": [], "warmup_tasks": []}
        if not epoch:
            subtopology = {"subtopology_id": "0", "source_topics": ["orders"]}
            topology = {"epoch": 1, "subtopologies": [subtopology]}
            fields |= {"rebalance_timeout_ms": 60_000, "topology": topology, "process_id": "process"}
        answer = self.ask(ApiKey.STREAMS_GROUP_HEARTBEAT, 1, fields, "streaming")
        assert not answer.error_code, (ErrorCode(answer.error_code).name, answer.error_message)
        self.epochs["words", "thread"] = answer.member_epoch
        return bool(epoch) and answer.member_epoch == epoch

    def leave(self) -> None:
        for member in ("first", "second"):
            fields: dict[str, Any] = {"group_id": "modern", "member_id": member, "member_epoch": -1}
            self.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, {**fields, "topic_partitions": None})
        fields = {"group_id": "sharers", "member_id": "sharer", "member_epoch": -1}
        self.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, fields)
        fields = {"group_id": "words", "member_id": "thread", "member_epoch": -1}
        self.ask(ApiKey.STREAMS_GROUP_HEARTBEAT, 1, fields)


TOPICS = (("orders", 3), ("other", 1))
CONFIGS = (("sharers", "share.auto.offset.reset", "earliest"), ("words", "streams.initial.rebalance.delay.ms", "0"))


def played(bootstrap: str) -> Iterator[tuple[str, str]]:
    """Every command with what it prints."""
    with ExitStack() as stack:
        tools = stack.enter_context(Tools.started(bootstrap))
        stage = Stage(bootstrap)
        stack.callback(stage.client.close)
        stage.set_up()
        for command in WITH_MEMBERS:
            yield f"{command}", tools.run(command)
        for command in DEAD_LETTERS:
            yield f"{command}  (a dead letter queue)", tools.run(command)
        stage.leave()
        for command in WITHOUT_MEMBERS:
            yield f"{command}  (nobody is there)", tools.run(command)


def written(commands: Iterator[tuple[str, str]]) -> str:
    """As it is recorded."""
    return "".join(f"$ {command}\n{printed}\n\n" for command, printed in commands)


PROPERTIES = {
    "group.consumer.session.timeout.ms": "60000",
    "group.share.session.timeout.ms": "60000",
    "group.streams.session.timeout.ms": "60000",
    "group.streams.initial.rebalance.delay.ms": "3000",
}
"""Nobody beats while the tools work, and a delay is that of Kafka where Odradek has another default."""


def main() -> None:
    with RealKafka(properties=PROPERTIES) as kafka:
        RECORDED.write_text(written(played(kafka.bootstrap)))


if __name__ == "__main__":
    main()
