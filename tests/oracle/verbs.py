"""The verbs of the runner: what a scenario needs besides requests."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Mapping
from typing import Any

from tests.oracle.answers import clock_time, describe_batch, render
from tests.oracle.language import is_option, split_option
from tests.oracle.player import (
    COORDINATOR_PARTITIONS,
    FAR_PARTITION,
    TRANSIENT,
    Answer,
    Neighbour,
    Nodes,
    Player,
    Verb,
    java_hash,
    wait_until,
)
from tests.oracle.requests import api_key, build_request
from tests.oracle.scenario import Step
from tests.oracle.shapes import PARTITION, Fields

from odradek.records.batch import batches
from odradek.records.record import Record, build_batch, iterate_records
from odradek.records.state import GROUP_RECORDS, SHARE_RECORDS, decode_record
from odradek.wire import registry
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from odradek.wire.messages.share_snapshot_key import ShareSnapshotKey
from odradek.wire.messages.share_update_key import ShareUpdateKey
from odradek.wire.messages.transaction_log_key import TransactionLogKey
from odradek.wire.messages.transaction_log_value import TransactionLogValue

__all__ = ["VERBS", "seed", "warm_up"]

RESTART_LIMIT_S = 60.0
RECORDS_LIMIT_S = 20.0
CLEANER_LIMIT_S = 20.0
CLUSTER_CONFIGS = {"resource_type": 4, "resource_name": ""}
FIRST_BROKER = 1
SET, DELETE = 0, 1
UPGRADE, SAFE_DOWNGRADE = 1, 2
READ_COMMITTED = 1
EARLIEST = -2
COMPLETE_COMMIT = 4
STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead")


def topic(player: Player, step: Step) -> Iterable[str]:
    """topic t 2 cleanup.policy=compact: create it and wait until it can be written"""
    name, *rest = (word for word in step.words if not is_option(word))
    full, count = player.scope.unique(name), int(rest[0]) if rest else 1
    configs = [
        {"name": key, "value": str(value)} for key, value in (split_option(w) for w in step.words if is_option(w))
    ]
    assignments = [{"partition_index": index, "broker_ids": [FIRST_BROKER]} for index in range(count)]
    fields = {"name": full, "num_partitions": -1, "replication_factor": -1, "configs": configs}
    fields["assignments"] = assignments
    created = player.call("CreateTopics", 7, {"topics": [fields], "timeout_ms": 30000}).topics[0]
    if created.error_code != ErrorCode.NONE:
        return [f"error_code={ErrorCode(created.error_code).name} error_message={created.error_message}"]
    player.topic_ids[full] = created.topic_id
    player.aliases.topic(name, created.topic_id)
    if not wait_until(lambda: is_led(player, full, count)):
        return ["has no leader"]
    return []


def hold(player: Player, step: Step) -> Iterable[str]:
    """hold h: a topic with one partition, whose markers wait; `@h` is the connection to its leader"""
    (name,) = step.words
    full = player.scope.unique(name)
    player.broker.hold(full)
    player.undo.append(lambda: player.broker.release(full))
    learn_id(player, name)
    return []


def follower(player: Player, step: Step) -> Iterable[str]:
    """follower r missing|lagging: a topic with one partition and two replicas; the other one is out of sync, or lags"""
    name, how = step.words
    full = player.scope.unique(name)
    player.broker.follow(full, lagging={"missing": False, "lagging": True}[how])
    player.undo.append(lambda: player.broker.follow_no_more(full))
    learn_id(player, name)
    return []


def nodes_of(player: Player) -> Nodes:
    """Those of a scenario of three brokers; whatever it does to them is undone."""
    nodes = player.broker.nodes
    assert nodes is not None, "the file does not say `three brokers`"
    if nodes.restore not in player.undo:
        player.undo.append(nodes.restore)
    return nodes


def replicas(player: Player, step: Step) -> Iterable[str]:
    """replicas r [2, 3] [3, 2] min.insync.replicas=2: a topic with a partition on each of these lists of brokers"""
    name, *lists = (word for word in step.words if not is_option(word))
    configs = dict(split_option(word) for word in step.words if is_option(word))
    nodes_of(player).create(player.scope.unique(name), [player.scope.value(each) for each in lists], configs)
    learn_id(player, name)
    return []


def come_or_go(player: Player, step: Step) -> Iterable[str]:
    """kill 2, start 2, freeze 2, thaw 2; expire 2: until the other brokers know that it is gone"""
    nodes, node = nodes_of(player), int(step.words[0])
    deed = {"kill": nodes.kill, "start": nodes.start, "freeze": nodes.freeze, "thaw": nodes.thaw}
    deed.get(step.verb, nodes.expire)(node)
    player.hang_up()
    return []


def release(player: Player, step: Step) -> Iterable[str]:
    """release h: the markers go through; release r: one replica is enough"""
    player.broker.release(player.scope.unique(step.words[0]))
    return []


def give_away(player: Player, step: Step) -> Iterable[str]:
    """elsewhere t: a topic with one partition that another broker leads"""
    (name,) = step.words
    full = player.scope.unique(name)
    player.broker.give_away(full)
    learn_id(player, name)
    return []


def learn_id(player: Player, name: str) -> None:
    """Ask for the id of a topic that was created elsewhere."""
    full = player.scope.unique(name)
    found = player.call("Metadata", 11, {"topics": [{"name": full}]}).topics[0]
    player.topic_ids[full] = found.topic_id
    player.aliases.topic(name, found.topic_id)


def is_led(player: Player, name: str, count: int) -> bool:
    """Whether all partitions of a topic can be read."""
    partitions = [{"partition_index": index, "timestamp": -1} for index in range(count)]
    fields: Fields = {"replica_id": -1, "topics": [{"name": name, "partitions": partitions}]}
    answer = player.call("ListOffsets", 6, fields)
    return all(partition.error_code == ErrorCode.NONE for partition in answer.topics[0].partitions)


def await_state(player: Player, step: Step) -> Iterable[str]:
    """await tid CompleteCommit [within=1000]: until DescribeTransactions says so"""
    transactional_id, state = player.scope.value(step.words[0]), step.words[1]
    limit_s = next(
        (int(split_option(word)[1]) / 1000 for word in step.words if is_option(word)), player.broker.patience_s
    )
    request = build_request(api_key("DescribeTransactions"), {"transactional_ids": [transactional_id]})

    def asked() -> Answer:
        return player.ask("DescribeTransactions", 0, request, connection=step.connection)

    if asked().message is None:
        # A release that cannot be asked: its log tells.
        held = wait_until(lambda: state_in_log(player, transactional_id) == state, limit_s=limit_s)
        return [f"{state_in_log(player, transactional_id)} in the log", *([] if held else ["never"])]
    held = wait_until(
        lambda: asked().message.transaction_states[0].transaction_state == state,
        limit_s=limit_s,
    )
    return [*player.lines(asked()), *([] if held else ["never"])]


def state_in_log(player: Player, transactional_id: str) -> str | None:
    """What the last record of an id in the coordinator's log says."""
    key = struct.pack(">h", 0) + registry.encode(TransactionLogKey(transactional_id=transactional_id), 0)
    partition = abs(java_hash(transactional_id)) % COORDINATOR_PARTITIONS
    found = read_partition(player, "__transaction_state", partition, isolation=0)
    status = None
    for batch in batches(memoryview(found.records or b"")):
        for record in iterate_records(batch):
            if record.key == key and record.value is not None:
                (version,) = struct.unpack_from(">h", record.value)
                status = registry.decode(TransactionLogValue, record.value[2:], version).transaction_status
    return None if status is None else STATES[status]


def log(player: Player, step: Step) -> Iterable[str]:
    """log t-0: every batch of the partition, its offsets, and what a reader of committed records is told to skip"""
    found = PARTITION.fullmatch(step.words[0])
    assert found is not None, step.text
    name = found["topic"] if found["topic"].startswith("__") else player.scope.unique(found["topic"])
    everything = read_partition(player, name, int(found["index"]), isolation=0)
    committed = read_partition(player, name, int(found["index"]), isolation=READ_COMMITTED)
    for batch in batches(memoryview(everything.records or b"")):
        yield describe_batch(batch, player.aliases)
    aborted = [
        f"{player.aliases.producer(range_.producer_id)}@{range_.first_offset}"
        for range_ in committed.aborted_transactions or ()
    ]
    yield (
        f"high_watermark={everything.high_watermark} last_stable_offset={committed.last_stable_offset} "
        f"aborted=[{', '.join(aborted)}]"
    )


def read_partition(player: Player, name: str, index: int, *, isolation: int) -> Any:
    """One partition from its start, all of its segments; the rest as the first answer tells it."""
    # The connection that leads to the partition's leader is called like its topic.
    connection = name.removeprefix(player.scope.prefix)
    records = b""
    offset, first = first_offset(player, name, index), None
    while True:
        partition = {"partition": index, "fetch_offset": offset, "partition_max_bytes": 1 << 24}
        topics = [{"topic": name, "partitions": [partition]}]
        request = build_request(api_key("Fetch"), {"max_wait_ms": 0, "isolation_level": isolation, "topics": topics})
        answer = player.ask("Fetch", 12, request, connection=connection).message.responses[0].partitions[0]
        assert answer.error_code == ErrorCode.NONE, f"{name}-{index}: {ErrorCode(answer.error_code).name}"
        if first is None:
            first = answer
        elif first.aborted_transactions is not None:
            known = first.aborted_transactions
            known += [each for each in answer.aborted_transactions or () if each not in known]
        found = bytes(answer.records or b"")
        if not found:
            break
        records += found
        *_, last = batches(memoryview(found))
        offset = last.next_offset
    first.records = records
    return first


def first_offset(player: Player, name: str, index: int) -> int:
    """Where the partition begins, as its leader says: where brokers come and go, that may be another one by now."""
    partition = {"partition_index": index, "timestamp": EARLIEST}
    fields = {"replica_id": -1, "topics": [{"name": name, "partitions": [partition]}]}
    request = build_request(api_key("ListOffsets"), fields)
    connection = name.removeprefix(player.scope.prefix)
    found: list[int] = []

    def is_told() -> bool:
        if player.broker.nodes is not None:
            player.lost(connection, "")
        answer = player.ask("ListOffsets", 5, request, connection=connection).message
        told = None if answer is None else answer.topics[0].partitions[0]
        found[:] = [] if told is None or told.error_code != ErrorCode.NONE else [int(told.offset)]
        return bool(found)

    assert wait_until(is_told, limit_s=player.broker.patience_s), f"nobody leads {name}-{index}"
    return found[0]


def compacted(player: Player, step: Step) -> Iterable[str]:
    """compacted t-0 3: until the cleaner has removed the batch that held this offset"""
    found = PARTITION.fullmatch(step.words[0])
    assert found is not None, step.text
    name, index, offset = player.scope.unique(found["topic"]), int(found["index"]), int(step.words[1])

    def is_gone() -> bool:
        kept = batches(memoryview(read_partition(player, name, index, isolation=0).records or b""))
        return not any(batch.base_offset <= offset <= batch.last_offset for batch in kept)

    return [] if wait_until(is_gone, limit_s=CLEANER_LIMIT_S) else ["never"]


def group_log(player: Player, step: Step) -> Iterable[str]:
    """group_log g: every record of the group in the coordinator's log"""
    name = player.scope.value(step.words[0])
    index = abs(java_hash(name)) % COORDINATOR_PARTITIONS
    found = read_partition(player, "__consumer_offsets", index, isolation=0)
    for batch in batches(memoryview(found.records or b"")):
        if not batch.is_control:
            for record in iterate_records(batch):
                yield from group_record(player, name, record)


def group_record(player: Player, name: str, record: Record) -> Iterable[str]:
    """A record of a coordinator's log, if it is about this group: its kind and its fields."""
    assert record.key is not None, "the log of a coordinator is compacted"
    key, value = decode_record(GROUP_RECORDS, record.key, record.value)
    if name not in (getattr(key, "group", None), getattr(key, "group_id", None)):
        return
    kind = type(key).__name__.removesuffix("Key")
    yield f"{kind} {' '.join(render(key, 0, player.aliases))}"
    if record.value is None or value is None:
        yield "    tombstone"
        return
    (version,) = struct.unpack_from(">h", record.value)
    if isinstance(value, ConsumerGroupRegularExpressionValue):
        value.version = 0  # how far the log of metadata was read
    yield from (f"    {line}" for line in render(value, version, player.aliases))


def records(player: Player, step: Step) -> Iterable[str]:
    """records t-0 3: every record of the partition, once there are as many; the topic may be created meanwhile"""
    found = PARTITION.fullmatch(step.words[0])
    assert found is not None, step.text
    name, index, count = player.scope.unique(found["topic"]), int(found["index"]), int(step.words[1])
    there: list[Record] = []

    def are_there() -> bool:
        if not is_led(player, name, index + 1):
            return False
        data = read_partition(player, name, index, isolation=0).records or b""
        there[:] = [record for batch in batches(memoryview(data)) for record in iterate_records(batch)]
        return len(there) >= count

    if not wait_until(are_there, limit_s=RECORDS_LIMIT_S):
        yield "never"
    for record in there:
        words = [f"{name}={player.aliases.text(text(value))}" for name, value in record.headers]
        yield " ".join(
            [str(record.offset), f"key={text(record.key)}", f"value={text(record.value)}", clock_time(record.timestamp)]
        )
        yield from (f"    {word}" for word in words)


def text(value: bytes | None) -> str:
    return "null" if value is None else value.decode()


def share_log(player: Player, step: Step) -> Iterable[str]:
    """share_log g: every record of the share group in the log of the share coordinator, partition by partition

    Of topics that had one name the older comes first: by their ids they lie anywhere.
    """
    name = player.scope.value(step.words[0])
    kept: dict[tuple[bytes, int], list[str]] = {}
    began: dict[tuple[bytes, int], int] = {}
    for index in range(COORDINATOR_PARTITIONS):
        found = read_partition(player, "__share_group_state", index, isolation=0)
        for batch in batches(memoryview(found.records or b"")):
            for record in iterate_records(batch):
                assert record.key is not None, "the log of a coordinator is compacted"
                key, value = decode_record(SHARE_RECORDS, record.key, record.value)
                if not isinstance(key, ShareSnapshotKey | ShareUpdateKey) or key.group_id != name:
                    continue
                lines = kept.setdefault((key.topic_id, key.partition), [])
                began.setdefault((key.topic_id, key.partition), record.timestamp)
                lines.append(f"{type(key).__name__.removesuffix('Key')} {' '.join(render(key, 0, player.aliases))}")
                if record.value is None or value is None:
                    lines.append("    tombstone")
                else:
                    (version,) = struct.unpack_from(">h", record.value)
                    lines += [f"    {line}" for line in render(value, version, player.aliases)]
    in_order = sorted(kept, key=lambda each: (player.aliases.uuid(each[0]), each[1], began[each]))
    return [line for each in in_order for line in kept[each]]


def feature(player: Player, step: Step) -> Iterable[str]:
    """feature transaction.version 1: for the rest of the scenario"""
    name, level = step.words[0], int(step.words[1])
    before = finalized(player).get(name, 0)
    if name not in {undone.__name__ for undone in player.undo}:

        def undo() -> None:
            set_feature(player, name, before)

        undo.__name__ = name
        player.undo.append(undo)
    set_feature(player, name, level)
    return []


def finalized(player: Player) -> dict[str, int]:
    """The levels that clients are told."""
    answer = player.call("ApiVersions", 4, {"client_software_name": "oracle", "client_software_version": "1"})
    return {found.name: found.max_version_level for found in answer.finalized_features}


def set_feature(player: Player, name: str, level: int) -> None:
    """Change a feature's level and wait until clients are told so."""
    before = finalized(player).get(name, 0)
    if before == level:
        return
    kind = UPGRADE if level > before else SAFE_DOWNGRADE
    update = {"feature": name, "max_version_level": level, "upgrade_type": kind}
    answer = player.call("UpdateFeatures", 1, {"feature_updates": [update], "timeout_ms": 10000})
    assert answer.error_code == ErrorCode.NONE, answer.error_message
    assert wait_until(lambda: finalized(player).get(name, 0) == level), f"{name} is not {level}"


def config(player: Player, step: Step) -> Iterable[str]:
    """config transaction.partition.verification.enable=false: of all brokers, for the rest of the scenario"""
    pairs = dict(split_option(word) for word in step.words)
    set_configs(player, pairs, SET)
    player.undo.append(lambda: set_configs(player, pairs, DELETE))
    return []


def set_configs(player: Player, pairs: Mapping[str, str], operation: int) -> None:
    """Change dynamic configs of the cluster and give the brokers time to heed them."""
    configs = [{"name": key, "value": value, "config_operation": operation} for key, value in pairs.items()]
    if operation == DELETE:
        configs = [{**each, "value": None} for each in configs]
    answer = player.call("IncrementalAlterConfigs", 1, {"resources": [{**CLUSTER_CONFIGS, "configs": configs}]})
    assert answer.responses[0].error_code == ErrorCode.NONE, answer.responses[0].error_message
    time.sleep(player.broker.settle_s)


def receive(player: Player, step: Step) -> Iterable[str]:
    """@b receive -> m: the answer to a request that was only sent"""
    sent = player.sent[step.connection].pop(0)
    within = next((int(split_option(word)[1]) / 1000 for word in step.words if is_option(word)), 10.0)
    answer = player.receive(step.connection, timeout_s=within)
    player.capture(Step(step.line, step.text, sent.verb, captures=step.captures), answer)
    return player.lines(answer)


def restart(player: Player, step: Step) -> Iterable[str]:
    """restart, or crash: the broker ends and comes back, and its coordinators have loaded"""
    player.close()
    player.broker.restart(crash=step.verb == "crash")
    warm_up(player)
    return []


def warm_up(player: Player) -> None:
    """Wait until every partition of both coordinators serves, and producer ids are at hand."""
    for key_type in (0, 1):
        ready(player, "FindCoordinator", 1, {"key_type": key_type, "key": "a"})
    player.broker.settle()
    # One-letter names, whose hashes are consecutive, fall on every partition.
    given_away = player.broker.neighbour in (Neighbour.COORDINATES, Neighbour.COME_AND_GO)
    names = [name for name in "abc" if not given_away or java_hash(name) % COORDINATOR_PARTITIONS != FAR_PARTITION]
    # Versions that every release serves; nobody has the producer id of the aborts, so they change nothing.
    for name in names:
        ready(player, "EndTxn", 1, {"transactional_id": name, "producer_id": 1 << 40, "producer_epoch": 0})
        ready(player, "OffsetFetch", 5, {"group_id": name, "topics": None})
    ready(player, "InitProducerId", 4, {"transactional_id": None})


def ready(player: Player, api: str, version: int, fields: Fields) -> None:
    """Ask until no error is left that passes with time."""
    request = build_request(api_key(api), fields)

    def settled() -> bool:
        answer = player.ask(api, version, request, connection="runner")
        return answer.message is not None and not TRANSIENT & set(player.texts(answer, "error"))

    assert wait_until(settled, limit_s=RESTART_LIMIT_S), f"the broker does not serve {api}"


def seed(player: Player, step: Step) -> int:
    """Write an entry with a high epoch into the coordinator's log; gives the producer id; the broker has to load it."""
    name = player.scope.unique(step.words[0])
    epoch = int(split_option(step.words[1])[1])
    init = player.call("InitProducerId", 4, {"transactional_id": name, "transaction_timeout_ms": 60000})
    assert init.error_code == ErrorCode.NONE, ErrorCode(init.error_code).name
    now = int(time.time() * 1000)
    value = TransactionLogValue(
        producer_id=init.producer_id,
        producer_epoch=epoch,
        transaction_timeout_ms=60000,
        transaction_status=COMPLETE_COMMIT,
        transaction_partitions=[],
        transaction_last_update_timestamp_ms=now,
        transaction_start_timestamp_ms=now,
    )
    version = 0 if player.level == 0 else 1
    record = Record(
        timestamp=now,
        key=struct.pack(">h", 0) + registry.encode(TransactionLogKey(transactional_id=name), 0),
        value=struct.pack(">h", version) + registry.encode(value, version),
    )
    append_to_coordinator_log(player, name, build_batch([record]))
    return int(init.producer_id)


def append_to_coordinator_log(player: Player, transactional_id: str, batch: bytes) -> None:
    """Produce to the internal topic, which only this client id may."""
    index = abs(java_hash(transactional_id)) % COORDINATOR_PARTITIONS
    data = [{"name": "__transaction_state", "partition_data": [{"index": index, "records": batch}]}]
    message = build_request(api_key("Produce"), {"acks": -1, "timeout_ms": 5000, "topic_data": data})
    answer = player.ask("Produce", 9, message, connection="runner", client_id="__admin_client").message
    written = answer.responses[0].partition_responses[0]
    assert written.error_code == ErrorCode.NONE, ErrorCode(written.error_code).name


def seeded(player: Player, step: Step) -> Iterable[str]:
    """seed tid epoch=32766 -> x: before the scenario began, the broker loaded this entry"""
    player.scope.variables[step.captures[0]] = player.seeds[step.words[0]]
    player.aliases.producer(player.seeds[step.words[0]])
    return []


def pause(player: Player, step: Step) -> Iterable[str]:
    """pause 200: milliseconds"""
    time.sleep(int(step.words[0]) / 1000)
    return []


def settle(player: Player, step: Step) -> Iterable[str]:
    """settle: until the coordinators have heard of topics and of configs of groups; a real broker tells them late"""
    time.sleep(player.broker.settle_s)
    return []


def let(player: Player, step: Step) -> Iterable[str]:
    """let n=e+1"""
    for word in step.words:
        name, text = split_option(word)
        player.scope.variables[name] = player.scope.value(text)
    return []


def close(player: Player, step: Step) -> Iterable[str]:
    """@b close: the client goes away"""
    player.lost(step.connection, "")
    return []


VERBS: Mapping[str, Verb] = {
    "await": await_state,
    "close": close,
    "compacted": compacted,
    "config": config,
    "crash": restart,
    "elsewhere": give_away,
    "expire": come_or_go,
    "feature": feature,
    "follower": follower,
    "freeze": come_or_go,
    "group_log": group_log,
    "hold": hold,
    "kill": come_or_go,
    "let": let,
    "log": log,
    "pause": pause,
    "receive": receive,
    "records": records,
    "release": release,
    "replicas": replicas,
    "restart": restart,
    "seed": seeded,
    "settle": settle,
    "share_log": share_log,
    "start": come_or_go,
    "thaw": come_or_go,
    "topic": topic,
}
