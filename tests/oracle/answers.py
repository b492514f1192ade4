"""Answers as text: every field of the version that was asked for, without what differs from run to run.

Producer ids become x, y, z in the order in which they appear, random ids of members and topics likewise; the names of
the scenario lose its prefix; clock times, ports and the cluster's id are named instead of shown.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from typing import Any

from msgspec import Struct

from odradek.records.batch import DELETE_HORIZON, Batch
from odradek.records.control import read_marker
from odradek.records.legacy import entries
from odradek.records.message_set import Message
from odradek.records.record import iterate_records
from odradek.wire import registry
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch_response import FetchResponse
from odradek.wire.registry import ApiKey
from odradek.wire.schema import Field, StructSpec

__all__ = ["INDENT", "Aliases", "describe_batch", "find", "render"]

INDENT = "    "

# Kafka answers these with the present time; one that a scenario chose itself is small, and shown.
CLOCK_TIME = re.compile(r"timestamp(_ms)?$|time_ms$")
CLOCK_TIME_MIN = 1_000_000_000_000

NOISE = frozenset({"throttle_time_ms", "log_dir", "total_bytes", "usable_bytes"})
"""How long a client is to wait, and what a disk is called and holds."""
RUNNING_NUMBERS = frozenset({"finalized_features_epoch", "broker_epoch", "controller_id"})
# Over which topics a broker hashes is its own affair.
HASHES = frozenset({"metadata_hash"})
COORDINATION = frozenset({"coordinator_epoch"})
LEADERSHIP = COORDINATION | {"leader_epoch", "committed_leader_epoch"}
ORDERED = frozenset({"records", "aborted_transactions", "replica_nodes", "replicas"})
"""What is compared as it comes; the first of several replicas is the one that is preferred."""
CLOCK_TIME_IN_TEXT = re.compile(r"\b1[5-9]\d{11}\b")
UUID_BYTES = 16
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
OWN_IDS = re.compile(r'(directoryId=|cluster id ")[\w-]{22}')
"""Ids of a cluster and of its controller's directory, in a text."""
SHORT_UUID = re.compile(r"(?=.*[A-Z])(?=.*[a-z])[\w-]{22}")
"""Kafka's text of an id: one in thirty has no digit."""
MEMBERS = frozenset({"leader", "member_id"})
PLAIN = re.compile(r"[^\s\"=\[\]]+")
PRODUCER_NAMES = "xyzuvwabcdefghijklm"


def in_order_of_the_answer() -> frozenset[Field]:
    """The topics and partitions of a Fetch, which Kafka answers in an order of its own, not in that of a hash map."""
    (topics,) = (field for field in registry.spec(FetchResponse).root.fields if field.python_name == "responses")
    assert topics.struct is not None
    return frozenset((topics, *(field for field in topics.struct.fields if field.is_array)))


FETCHED = in_order_of_the_answer()


class Aliases:
    """The names that stand for what is different in each run."""

    def __init__(
        self, prefix: str, *, ports: Mapping[int, str], restarts: bool = False, coordinators_move: bool = False
    ) -> None:
        self.prefix = prefix
        self.ports = ports
        self.terms = LEADERSHIP if restarts else COORDINATION if coordinators_move else frozenset()
        """The epochs of which only is shown whether it is another one."""
        self.producer_ids: dict[int, str] = {}
        self.topic_ids: dict[bytes, str] = {}
        self.others: dict[object, str] = {}

    def producer(self, producer_id: int) -> str:
        # 0 is what a field holds that says nothing: the first id goes to the runner's own warm-up.
        if producer_id <= 0:
            return str(producer_id)
        return self.producer_ids.setdefault(producer_id, PRODUCER_NAMES[len(self.producer_ids)])

    def leadership(self, name: str, epoch: int) -> str:
        """The epoch of a leader or coordinator: where it follows from other scenarios, only whether it is another."""
        return self.other("term", ("term", epoch)) if name in self.terms and epoch >= 0 else str(epoch)

    def topic(self, name: str, topic_id: bytes) -> None:
        """From now on this id is shown as that of the topic; a topic that is made again has another one."""
        before = sum(shown.startswith(f"id({name}") for shown in self.topic_ids.values())
        self.topic_ids[topic_id] = f"id({name} again)" if before else f"id({name})"

    def uuid(self, value: bytes) -> str:
        if not any(value):
            return "zero"
        return self.topic_ids.get(value) or self.other("uuid", value)

    def other(self, kind: str, value: object) -> str:
        if value not in self.others:
            count = sum(name.startswith(kind) for name in self.others.values())
            self.others[value] = f"{kind}{count + 1}"
        return self.others[value]

    def comparable(self, value: Any) -> Any:
        """A value to sort by: random ids by the names that they have, those without a name last."""
        if isinstance(value, bytes) and len(value) == UUID_BYTES:
            return self.topic_ids.get(value) or self.others.get(value, "~")
        if isinstance(value, str):
            return self.others.get(value) or UUID.sub(lambda found: self.others.get(found[0], "~"), value)
        return value

    def text(self, value: str) -> str:
        """A string of an answer, quoted if it would not read as one word."""
        value = UUID.sub(lambda found: self.other("uuid", found[0]), value.replace(self.prefix, ""))
        value = CLOCK_TIME_IN_TEXT.sub("now", OWN_IDS.sub(r"\1…", value))
        for topic_id, name in self.topic_ids.items():
            value = value.replace(base64.urlsafe_b64encode(topic_id).decode().rstrip("="), name)
        return value if PLAIN.fullmatch(value) else json.dumps(value, ensure_ascii=False)


def render(message: Struct, version: int, aliases: Aliases, *, without: str = "") -> list[str]:
    """The lines of an answer, `without` one of its outermost fields."""
    if without:
        message = copy(message)
        setattr(message, without, [] if isinstance(getattr(message, without), list) else None)
    return list(struct_lines(registry.spec(type(message)).root, message, version, aliases, label="", depth=0))


def struct_lines(
    spec: StructSpec, value: Any, version: int, aliases: Aliases, *, label: str, depth: int
) -> Iterator[str]:
    """One line with the plain fields of a struct, and below it its structs and lists of structs."""
    words: list[str] = [label] if label else []
    below: list[tuple[Field, Any]] = []
    for field in spec.fields:
        content = getattr(value, field.python_name)
        if version not in field.versions or field.python_name in NOISE or is_absent(field, content, version):
            continue
        if (field.struct is not None or field.kind == "records") and content:
            below.append((field, content))
        else:
            words.append(f"{field.python_name}={scalar(field, content, aliases)}")
    if words:
        yield f"{INDENT * depth}{' '.join(words)}"
        depth += 1
    for field, content in below:
        yield from nested_lines(field, content, version, aliases, depth)


def is_absent(field: Field, content: Any, version: int) -> bool:
    """Whether a tagged field is not on the wire, because it has its default."""
    if version not in field.tagged:
        return False
    if field.default is ...:
        return bool(content == type(content)())
    return bool(content == (list(field.default) if field.default == () else field.default))


def nested_lines(field: Field, content: Any, version: int, aliases: Aliases, depth: int) -> Iterator[str]:
    if field.kind == "records":
        yield f"{INDENT * depth}{field.python_name}"
        left = len(content)
        for entry in entries(memoryview(content)):
            told = describe_batch(entry, aliases) if isinstance(entry, Batch) else describe_message(entry)
            yield f"{INDENT * (depth + 1)}{told}"
            left -= entry.size
        if left:
            yield f"{INDENT * (depth + 1)}{left} bytes of another batch"
        return
    assert field.struct is not None
    elements: Iterable[Any] = content if field.is_array else [content]
    if field.is_array and field.python_name not in ORDERED and field not in FETCHED:
        elements = sorted(elements, key=lambda element: sort_key(field.struct, element, aliases))
    for element in elements:
        yield from struct_lines(field.struct, element, version, aliases, label=field.python_name, depth=depth)


def sort_key(spec: StructSpec | None, element: Any, aliases: Aliases) -> list[Any]:
    """Kafka answers from hash maps: the order of the elements tells nothing."""
    assert spec is not None
    values = [aliases.comparable(getattr(element, field.python_name)) for field in spec.fields if is_comparable(field)]
    return [(value is not None, value) if value is not None else (False,) for value in values]


def is_comparable(field: Field) -> bool:
    return field.struct is None and not field.is_array and field.kind != "records"


def scalar(field: Field, content: Any, aliases: Aliases) -> str:
    """One plain value, or a list of them."""
    if content is None:
        return "null"
    if field.is_array:
        return f"[{', '.join(sorted_words(field, content, aliases))}]"
    return one_value(field, content, aliases)


def sorted_words(field: Field, content: list[Any], aliases: Aliases) -> list[str]:
    in_order = content if field.python_name in ORDERED else sorted(content)
    return [one_value(field, value, aliases) for value in in_order]


def one_value(field: Field, content: Any, aliases: Aliases) -> str:
    name = field.python_name
    match content:
        case bool():
            return str(content).lower()
        case int() if name.endswith("error_code"):
            return ErrorCode(content).name
        case int() if name == "api_key":
            return ApiKey(content).name
        case int() if name.endswith("producer_id") or field.entity == "producerId":
            return aliases.producer(content)
        case int() if name in LEADERSHIP:
            return aliases.leadership(name, content)
        case int() if CLOCK_TIME.search(name) and content >= CLOCK_TIME_MIN:
            return "now"
        case int() if name == "subscription_id":
            return aliases.other("subscription", ("subscription", content))
        case int() if name in RUNNING_NUMBERS and content > 0:
            return "N"
        case int() if name in HASHES:
            return "HASH"
        case int() if name == "session_id" and content > 0:
            return aliases.other("session", ("session", content))
        case int() if name == "port" and content in aliases.ports:
            return aliases.ports[content]
        case int() | float():
            return str(content)
        case str() if name == "cluster_id":
            return "CLUSTER"
        case str() if name in MEMBERS and SHORT_UUID.fullmatch(content):
            return aliases.other("uuid", content)
        case str():
            return aliases.text(content)
        case bytes() if field.kind == "uuid":
            return aliases.uuid(content)
        case bytes() | memoryview():
            return octets(bytes(content), aliases)
    raise AssertionError(f"no text for {name}: {content!r}")


def octets(content: bytes, aliases: Aliases) -> str:
    """Bytes as text if they are that, otherwise in hexadecimal."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = ""
    return aliases.text(text) if text.isprintable() and (text or not content) else f"hex({content.hex()})"


def describe_batch(batch: Batch, aliases: Aliases) -> str:
    """A batch in one line: offsets, kind, producer, and what compaction has left of it."""
    first, last = batch.base_offset, batch.last_offset
    words = [str(first) if first == last else f"{first}..{last}"]
    marker = read_marker(batch) if batch.is_control else None
    if marker is not None:
        words.append("COMMIT" if marker.commit else "ABORT")
    else:
        words.append("control" if batch.is_control else "data")
    if batch.has_producer_id:
        words += [aliases.producer(batch.producer_id), f"epoch={batch.producer_epoch}"]
    if marker is not None:
        words.append(f"coordinator_epoch={aliases.leadership('coordinator_epoch', marker.coordinator_epoch)}")
    elif batch.has_producer_id:
        words.append(f"sequence={batch.base_sequence}")
    if batch.is_transactional and marker is None:
        words.append("transactional")
    if batch.compression:
        words.append(batch.compression.name.lower())
    words += [f"timestamp={record.timestamp}" for record in small_times(batch)]
    return " ".join([*words, *compacted_words(batch)])


def describe_message(message: Message) -> str:
    """A message of the formats before batches in one line."""
    return f"{message.offset} message of magic {message.magic} timestamp={clock_time(message.timestamp)}"


def compacted_words(batch: Batch) -> Iterator[str]:
    """What is told of a batch that the cleaner has written: the number of its records, its times and its epoch."""
    is_thinned = batch.record_count != batch.last_offset_delta + 1
    if batch.attributes & DELETE_HORIZON:
        yield "delete_horizon"
    if is_thinned or batch.attributes & DELETE_HORIZON:
        yield f"max_timestamp={clock_time(batch.max_timestamp)}"
    if is_thinned:
        yield f"records={batch.record_count}"
        yield f"base_timestamp={clock_time(batch.base_timestamp)}"
        yield f"leader_epoch={batch.partition_leader_epoch}"
        yield batch.timestamp_type.name.lower()
    if not batch.crc_is_valid():
        yield "wrong checksum"


def clock_time(timestamp: int) -> str:
    return str(timestamp) if timestamp < CLOCK_TIME_MIN else "now"


def small_times(batch: Batch) -> list[Any]:
    """The records whose time the scenario chose."""
    return [] if batch.is_control else [r for r in iterate_records(batch) if 0 <= r.timestamp < CLOCK_TIME_MIN]


def find(name: str, message: Struct, version: int, aliases: Aliases) -> Iterator[tuple[str, Any]]:
    """Text and value of all fields of that name, outermost first; `error` is any error code."""
    return find_in(name, registry.spec(type(message)).root, message, version, aliases)


def find_in(name: str, spec: StructSpec, value: Any, version: int, aliases: Aliases) -> Iterator[tuple[str, Any]]:
    present = [(field, getattr(value, field.python_name)) for field in spec.fields if version in field.versions]
    for field, content in present:
        named = field.python_name == name or (name == "error" and field.python_name.endswith("error_code"))
        if named and (field.struct is None or not content):
            yield scalar(field, content, aliases), content
    for field, content in present:
        if field.struct is not None and content is not None:
            for element in content if field.is_array else [content]:
                yield from find_in(name, field.struct, element, version, aliases)
