"""The quorum of controllers in the metadata log: its version and its voters are control records (KIP-853).

`kafka-storage format --standalone` begins a log with them, and a change of kraft.version from 0 to 1 writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.core.machine import ControlRecord
from odradek.records.control import QUORUM_RECORDS, ControlType, control_key
from odradek.wire.messages.k_raft_version_record import KRaftVersionRecord
from odradek.wire.messages.voters_record import Endpoint, KRaftVersionFeature, Voter, VotersRecord
from odradek.wire.registry import decode, encode, message_type

if TYPE_CHECKING:
    from odradek.records.record import Record

__all__ = ["Controllers", "decode_quorum", "encode_quorum", "metadata_directory", "quorum_at"]

LEVEL_MAX = 1
_VERSION = 0
_NAMES = {kind: name for name, kind in QUORUM_RECORDS.items()}


class Controllers(Struct, frozen=True):
    """The voters of a quorum, and how they are reached."""

    listener: str
    """The name of the controllers' listener."""
    voters: Mapping[int, tuple[bytes, str, int]]
    """By node id: the id of the directory with its metadata log, its host and its port."""


def quorum_at(level: int, controllers: Controllers) -> list[Struct]:
    """What Kafka writes where kraft.version gets this level: the level, and all voters."""
    voters = [
        Voter(
            voter_id=node_id,
            voter_directory_id=directory,
            endpoints=[Endpoint(name=controllers.listener, host=host, port=port)],
            k_raft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=LEVEL_MAX),
        )
        for node_id, (directory, host, port) in controllers.voters.items()
    ]
    return [KRaftVersionRecord(k_raft_version=level), VotersRecord(voters=voters)]


def metadata_directory(directories: Sequence[bytes], cluster_id: str, node_id: int) -> bytes:
    """The id of the directory with a node's metadata log, of these; one that stays the same where it has none."""
    if directories:
        return directories[0]
    return sha256(f"{cluster_id}/{node_id}".encode()).digest()[:16]


def decode_quorum(found: Mapping[ControlType, Record]) -> list[Struct]:
    """`KRaftVersionRecord` and `VotersRecord`, where they are there, in this order. Raises `DecodeError`."""
    return [decode(message_type(_NAMES[kind]), found[kind].value or b"", _VERSION) for kind in sorted(found)]


def encode_quorum(records: Iterable[Struct]) -> list[ControlRecord]:
    """These as records of the log."""
    return [ControlRecord(control_key(QUORUM_RECORDS[type(one).__name__]), encode(one, _VERSION)) for one in records]
