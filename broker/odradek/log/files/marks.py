"""The small files that name a directory and its partitions, as Kafka 4.4 writes them.

`meta.properties` (version 1, KIP-858), `partition.metadata` (version 0, KIP-516), `.kafka_cleanshutdown` (KIP-966) and
`quorum-state` (version 0 with static voters, version 1 with voters in the log: KIP-595, KIP-853).
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from odradek.log.disk import DamagedFile
from odradek.wire.primitives import uuid_text

__all__ = [
    "Meta",
    "QuorumState",
    "id_of",
    "is_cut_off",
    "read_clean_stop",
    "read_meta",
    "read_partition_metadata",
    "read_quorum_state",
    "write_clean_stop",
    "write_meta",
    "write_partition_metadata",
    "write_quorum_state",
]

META_VERSION = 1
_PARTITION_VERSION = 0
_ID_BYTES = 16


class Meta(Struct, frozen=True):
    """The owner of a log directory: cluster and node."""

    cluster_id: str
    node_id: int
    directory_id: bytes
    """Empty before 3.7."""


class QuorumState(Struct, frozen=True):
    """The state that a member of the quorum must keep: the epoch, and its leader."""

    leader_id: int
    leader_epoch: int
    voters: tuple[int, ...] = ()
    """Static voters; empty where the log names them."""


def id_of(text: str) -> bytes:
    """The id that is written so. Raises `DamagedFile`."""
    try:
        found = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        found = b""
    if len(found) != _ID_BYTES:
        raise DamagedFile(f"{text!r} is no id of {_ID_BYTES} bytes")
    return found


def write_meta(meta: Meta, *, date: str) -> bytes:
    """`meta.properties`, with the lines that `java.util.Properties` puts on top."""
    lines = (
        "#",
        f"#{date}",
        f"cluster.id={meta.cluster_id}",
        *([f"directory.id={uuid_text(meta.directory_id)}"] if meta.directory_id else ()),
        f"node.id={meta.node_id}",
        f"version={META_VERSION}",
    )
    return "".join(f"{line}\n" for line in lines).encode()


def _check_version(found: Mapping[str, str], known: int) -> None:
    version = found.get("version")
    if version is None:
        raise DamagedFile("it is damaged: it names no version")
    if version != str(known):
        raise DamagedFile(f"it is of version {version}, and version {known} is known")


def read_meta(data: bytes) -> Meta:
    """The owner of a directory. Raises `DamagedFile`."""
    found = _properties(data)
    _check_version(found, META_VERSION)
    for name in ("cluster.id", "node.id"):
        if name not in found:
            raise DamagedFile(f"it names no {name}")
    if not found["node.id"].isdecimal():
        raise DamagedFile(f"{found['node.id']!r} is no node id")
    directory_id = id_of(found["directory.id"]) if "directory.id" in found else b""
    return Meta(found["cluster.id"], int(found["node.id"]), directory_id)


def _properties(data: bytes) -> Mapping[str, str]:
    try:
        lines = data.decode("latin-1").splitlines()
    except UnicodeDecodeError:  # pragma: no cover - every byte is a character of this code
        lines = []
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith(("#", "!")))
    return {name.strip(): value.strip().replace("\\", "") for name, value in pairs}


def write_partition_metadata(topic_id: bytes) -> bytes:
    """`partition.metadata`."""
    return f"version: {_PARTITION_VERSION}\ntopic_id: {uuid_text(topic_id)}".encode()


def read_partition_metadata(data: bytes) -> bytes:
    """The id of the topic. Raises `DamagedFile`."""
    lines = data.decode("latin-1").splitlines()
    found = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    _check_version(found, _PARTITION_VERSION)
    return id_of(found.get("topic_id", ""))


def is_cut_off(data: bytes) -> bool:
    """Whether this is the beginning of a `partition.metadata` whose machine died before the rest was on the device."""
    whole = write_partition_metadata(bytes(_ID_BYTES))
    written, label = data.rstrip(b"\0"), whole.removesuffix(uuid_text(bytes(_ID_BYTES)).encode())
    return len(written) < len(whole) and written[: len(label)] == label[: len(written)]


def write_clean_stop(broker_epoch: int | None) -> bytes:
    """The mark of a clean stop; None: as before 3.7, when the broker's epoch was not in it."""
    if broker_epoch is None:
        return b""
    return msgspec.json.encode({"version": 0, "brokerEpoch": broker_epoch})


def read_clean_stop(data: bytes) -> int:
    """The epoch of the broker that stopped cleanly; -1 for the mark of an older release or an unreadable one."""
    try:
        found = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return -1
    epoch = found.get("brokerEpoch", -1) if isinstance(found, dict) else -1
    return epoch if isinstance(epoch, int) else -1


def write_quorum_state(state: QuorumState) -> bytes:
    """`quorum-state`, of the version that goes with where the voters are named."""
    if not state.voters:
        return msgspec.json.encode(
            {
                "leaderId": state.leader_id,
                "leaderEpoch": state.leader_epoch,
                "votedId": -1,
                "votedDirectoryId": uuid_text(bytes(_ID_BYTES)),
                "data_version": 1,
            }
        )
    return msgspec.json.encode(
        {
            "clusterId": "",
            "leaderId": state.leader_id,
            "leaderEpoch": state.leader_epoch,
            "votedId": -1,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter} for voter in state.voters],
            "data_version": 0,
        }
    )


def read_quorum_state(data: bytes) -> QuorumState:
    """The epoch of the quorum. Raises `DamagedFile`."""
    try:
        found = msgspec.json.decode(data)
        version = found["data_version"]
        if version not in (0, 1):
            raise DamagedFile(f"it is of version {version}, and versions 0 and 1 are known")
        voters = tuple(int(each["voterId"]) for each in found.get("currentVoters") or ())
        return QuorumState(int(found["leaderId"]), int(found["leaderEpoch"]), voters)
    except (msgspec.DecodeError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise DamagedFile(f"it is no state of a quorum ({error})") from None
