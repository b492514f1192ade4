"""What a JVM that plays Kafka's tests asks of the driver: one line of JSON each."""

from __future__ import annotations

from msgspec import Struct
from tests.kafka.entrance import Builder

from odradek.wire.messages.create_acls_request import AclCreation
from odradek.wire.messages.delete_acls_request import DeleteAclsFilter


class Listening(Struct, frozen=True):
    """A listener that a broker is to have; where there is a builder of principals, it says who comes over it."""

    name: str
    protocol: str = "PLAINTEXT"
    port: int = 0
    builder: Builder | None = None


class Credential(Struct, frozen=True):
    """What a user of a new cluster logs in with by SCRAM; bytes are in Base64."""

    name: str
    mechanism: int
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes


class StartBroker(Struct, tag="start", frozen=True):
    """Start a broker, or start it again.

    Answer: `port` of its first listener, `ports` by their names, `dropped` (the keys that Odradek does not know).
    """

    cluster: str
    broker: int
    config: dict[str, str]
    features: dict[str, int]
    rack: str | None = None
    listeners: tuple[Listening, ...] = (Listening("PLAINTEXT"),)
    credentials: tuple[Credential, ...] = ()


class StopBroker(Struct, tag="stop", frozen=True):
    """As if its machine were gone; it may be stopped already."""

    cluster: str
    broker: int


class Forget(Struct, tag="forget", frozen=True):
    """End all brokers of a cluster, if there is such a cluster."""

    cluster: str


class ReadMetadata(Struct, tag="metadata", frozen=True):
    """The metadata log. Answer: `batches` from this offset on in Base64, `end`."""

    cluster: str
    offset: int


class DescribeLog(Struct, tag="log", frozen=True):
    """The log of a partition, at its leader. Answer: `log`, null if nobody leads it."""

    cluster: str
    topic: str
    partition: int


class ReadTransaction(Struct, tag="transaction", frozen=True):
    """A transactional id. Answer: `epoch`."""

    cluster: str
    transactional_id: str


class SetEpoch(Struct, tag="epoch", frozen=True):
    """Give an idle transactional id this epoch."""

    cluster: str
    transactional_id: str
    epoch: int


class CreateAcls(Struct, tag="create-acls", frozen=True):
    """Create permissions, as the controller's authorizer does when it is asked."""

    cluster: str
    acls: list[AclCreation]


class DeleteAcls(Struct, tag="delete-acls", frozen=True):
    """Delete the permissions that one of the filters means."""

    cluster: str
    filters: list[DeleteAclsFilter]


class ReadQuota(Struct, tag="quota", frozen=True):
    """What a client may use, as a broker knows it, or, for -1, the controller.

    Answer: `limit`, null for as much as it wants; of those who have it together whether they have `used` something, and
    how often (`count`) and for how long (`throttled_ms`) they had to wait.
    """

    cluster: str
    broker: int
    key: str
    user: str
    client_id: str


class ReadThrottles(Struct, tag="throttles", frozen=True):
    """Answer: how long clients had to wait for each limit, on the average of all brokers (ms), by its key."""

    cluster: str


class ReadLogins(Struct, tag="logins", frozen=True):
    """Answer: by broker, how many connections ended because a login had `expired`, or another one was `refused`."""

    cluster: str


class OpenController(Struct, tag="controller", frozen=True):
    """Let the controller listen for itself, if it does not yet. Answer: `port`."""

    cluster: str


class AppendRecords(Struct, tag="append", frozen=True):
    """Append batches to a partition, past the protocol."""

    cluster: str
    topic: str
    partition: int
    batches: bytes


class FindOffset(Struct, tag="offset", frozen=True):
    """Answer: `offset` and `timestamp` for a timestamp of ListOffsets, -1 each if there is none."""

    cluster: str
    topic: str
    partition: int
    timestamp: int


class CutLog(Struct, tag="cut", frozen=True):
    """Let the log of a partition begin at an offset, or end there."""

    cluster: str
    topic: str
    partition: int
    offset: int
    ends: bool


class ReadLog(Struct, tag="records", frozen=True):
    """Answer: `segments`, the batches of each in Base64."""

    cluster: str
    topic: str
    partition: int


class RollLog(Struct, tag="roll", frozen=True):
    """Begin a new segment with the next record."""

    cluster: str
    topic: str
    partition: int


class CleanLog(Struct, tag="clean", frozen=True):
    """Do what the cleaner does. Answer: `until` where the log is clean."""

    cluster: str
    topic: str
    partition: int


Request = (
    StartBroker
    | StopBroker
    | Forget
    | ReadMetadata
    | DescribeLog
    | ReadTransaction
    | SetEpoch
    | CreateAcls
    | DeleteAcls
    | ReadQuota
    | ReadThrottles
    | ReadLogins
    | OpenController
    | AppendRecords
    | FindOffset
    | CutLog
    | ReadLog
    | RollLog
    | CleanLog
)
