"""Brokers coming and going, and what that does to leaders (KIP-631; Kafka's `ClusterControlManager`).

A fenced broker leads nothing and is in no ISR. Partitions wait without a leader for a replica that has all that is
committed (`elections`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from odradek.metadata.change import Change, Failure
from odradek.metadata.elections import Election, ElectionRules, changed
from odradek.metadata.features import unsupported_levels
from odradek.metadata.image import (
    NO_LEADER,
    BrokerImage,
    EndpointImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from odradek.metadata.snapshot import broker_record
from odradek.releases import WIDEST
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from odradek.wire.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from odradek.wire.messages.partition_change_record import PartitionChangeRecord

if TYPE_CHECKING:
    from odradek.wire.messages.unregister_broker_response import UnregisterBrokerResponse

__all__ = ["NO_EPOCH", "fence", "may_lead", "move_leader", "register", "registration", "stale", "unfence", "unregister"]

FENCE, UNFENCE = 1, -1
NO_EPOCH = -1
DEFAULTS = ElectionRules()


def registration(
    *,
    broker_id: int,
    cluster_id: str,
    incarnation_id: bytes,
    host: str,
    port: int,
    features: Mapping[str, tuple[int, int]] = WIDEST.features,
    rack: str | None = None,
    endpoints: Sequence[EndpointImage] = (),
    previous_epoch: int = NO_EPOCH,
    log_dirs: Sequence[bytes] = (),
) -> BrokerRegistrationRequest:
    """What a broker says when it registers; `features` are the lowest and highest level of each that it supports.

    Without endpoints it has one listener without encryption at this host and port. The epoch of its registration before
    says that it was shut down cleanly since. `log_dirs` are the ids of its directories, where it has any (KIP-858).
    """
    told = endpoints or (EndpointImage("PLAINTEXT", host, port),)
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=cluster_id,
        incarnation_id=incarnation_id,
        listeners=[
            Listener(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in told
        ],
        features=[
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in features.items()
        ],
        rack=rack,
        log_dirs=list(log_dirs),
        previous_broker_epoch=previous_epoch,
    )


def register(
    request: BrokerRegistrationRequest,
    image: MetadataImage,
    *,
    cluster_id: str,
    epoch: int,
    rules: ElectionRules = DEFAULTS,
) -> list[Struct] | Failure:
    """A broker comes (back): it stays fenced until its first heartbeat shows that it has read the log so far.

    One that was not shut down cleanly may have lost what it had, and is eligible as a leader no more (KIP-966).
    """
    if request.cluster_id != cluster_id:
        return Failure(ErrorCode.INCONSISTENT_CLUSTER_ID)
    features = {f.name: (f.min_supported_version, f.max_supported_version) for f in request.features}
    if unsupported_levels(image, features) is not None:
        return Failure(ErrorCode.UNSUPPORTED_VERSION)
    broker = BrokerImage(
        id=request.broker_id,
        epoch=epoch,
        incarnation_id=request.incarnation_id,
        endpoints=tuple(EndpointImage(e.name, e.host, e.port, e.security_protocol) for e in request.listeners),
        features=features,
        rack=request.rack,
        log_dirs=tuple(request.log_dirs),
    )
    before = image.brokers.get(broker.id)
    crashed = before is not None and before.epoch != request.previous_broker_epoch
    return [broker_record(broker), *_consequences(image, broker, rules, crashed=crashed)]


def fence(image: MetadataImage, broker: BrokerImage, rules: ElectionRules = DEFAULTS) -> list[Struct]:
    """The broker is gone: it is fenced, and its partitions go to whoever else has a replica."""
    return [_flagged(broker, FENCE), *_consequences(image, replace(broker, fenced=True), rules)]


def unfence(image: MetadataImage, broker: BrokerImage, rules: ElectionRules = DEFAULTS) -> list[Struct]:
    """The broker is there: it leads what waited for it.

    What others lead it has fetched before a client can look, unless it takes its time: then its leaders propose it.
    """
    return [_flagged(broker, UNFENCE), *_consequences(image, replace(broker, fenced=False), rules)]


def unregister(broker_id: int, image: MetadataImage, rules: ElectionRules) -> Change[UnregisterBrokerResponse]:
    """The broker is forgotten; its partitions go to whoever else has a replica."""
    from odradek.wire.messages.unregister_broker_record import UnregisterBrokerRecord  # few are ever forgotten
    from odradek.wire.messages.unregister_broker_response import UnregisterBrokerResponse

    broker = image.brokers.get(broker_id)
    if broker is None:
        text = f"Broker ID {broker_id} is not currently registered"
        return Change(UnregisterBrokerResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message=text))
    records: list[Struct] = [UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch)]
    records += _consequences(image, replace(broker, fenced=True), rules)
    return Change(UnregisterBrokerResponse(error_message=""), records)


def stale(image: MetadataImage, *, broker_id: int, epoch: int) -> ErrorCode:
    """Why a broker that says this of itself is not listened to, or NONE."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        return ErrorCode.BROKER_ID_NOT_REGISTERED
    return ErrorCode.NONE if broker.epoch == epoch else ErrorCode.STALE_BROKER_EPOCH


def may_lead(partition: PartitionImage, broker: int) -> bool:
    """Whether a partition that is given to this broker keeps all that is committed.

    So it is with whoever is in sync, or eligible (KIP-966), and with a broker that has no replica, if there is a leader
    to give it everything.
    """
    if broker in partition.replicas:
        return broker in partition.isr or broker in partition.eligible_replicas
    return partition.leader != NO_LEADER


def move_leader(topic: TopicImage, partition: PartitionImage, to: int, image: MetadataImage) -> PartitionChangeRecord:
    """Make a broker the leader; if it has no replica it takes the place of the present leader in the list.

    One that is out of sync leads all the same, and what it has not acknowledged is lost: see `may_lead`.
    """
    record = PartitionChangeRecord(topic_id=topic.id, partition_id=partition.index, leader=to)
    isr = list(partition.isr)
    if to not in partition.replicas:
        gone = partition.leader if partition.leader in partition.replicas else partition.replicas[0]
        record.replicas = [to if replica == gone else replica for replica in partition.replicas]
        isr = [replica for replica in isr if replica != gone]
    if to not in isr:
        record.isr = [*isr, to]
    if to in partition.eligible_replicas:
        record.eligible_leader_replicas = [each for each in partition.eligible_replicas if each != to]
    if partition.last_known_eligible:
        record.last_known_elr = []
    return record


def _flagged(broker: BrokerImage, fenced: int) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=fenced)


def _consequences(
    image: MetadataImage, broker: BrokerImage, rules: ElectionRules, *, crashed: bool = False
) -> Iterator[PartitionChangeRecord]:
    """What changes for the partitions of a broker that has become like this, and may have lost what it had."""
    after = replace(image, brokers={**image.brokers, broker.id: broker})
    at_once = not broker.fenced and rules.at_once(broker.id)
    for topic in image.topics.values():
        for partition in topic.partitions.values():
            if broker.id in partition.replicas:
                isr = partition.isr
                if at_once and broker.id not in isr and partition.leader != NO_LEADER:
                    isr = tuple(each for each in partition.replicas if each in isr or each == broker.id)
                record = changed(
                    topic,
                    partition,
                    after,
                    rules,
                    isr=isr,
                    election=Election.KEEP,
                    crashed=broker.id if crashed else None,
                )
                if record is not None:
                    yield record
