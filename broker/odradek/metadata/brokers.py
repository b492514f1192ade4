"""Registration and fencing of brokers, and the effect on leaders (KIP-631; Kafka's `ClusterControlManager`).

A fenced broker leads no partition and is in no ISR. A partition without a leader waits for a replica with all committed
records (`elections`).
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
from odradek.releases.table import WIDEST
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
    """The data of a broker's registration; `features` are the lowest and highest level of each that it supports.

    Without endpoints it has one listener without encryption at this host and port. The epoch of its registration before
    says that it was shut down cleanly since. `log_dirs` are the ids of its directories, if it has any (KIP-858).
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
    """Register a broker; it stays fenced until its heartbeat shows that it has read the log up to its registration.

    After an unclean shutdown it may have lost records, and is no longer an eligible leader (KIP-966).
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
    """Fence a broker; other replicas become leaders of its partitions."""
    return [_flagged(broker, FENCE), *_consequences(image, replace(broker, fenced=True), rules)]


def unfence(image: MetadataImage, broker: BrokerImage, rules: ElectionRules = DEFAULTS) -> list[Struct]:
    """Unfence a broker; it leads the partitions that waited for it.

    Of other partitions it has a full replica at once, unless its configuration gives it a delay: then the leaders
    propose it for the ISR later.
    """
    return [_flagged(broker, UNFENCE), *_consequences(image, replace(broker, fenced=False), rules)]


def unregister(broker_id: int, image: MetadataImage, rules: ElectionRules) -> Change[UnregisterBrokerResponse]:
    """Unregister a broker; other replicas become leaders of its partitions."""
    # few brokers are ever unregistered
    from odradek.wire.messages.unregister_broker_record import UnregisterBrokerRecord
    from odradek.wire.messages.unregister_broker_response import UnregisterBrokerResponse

    broker = image.brokers.get(broker_id)
    if broker is None:
        text = f"Broker ID {broker_id} is not currently registered"
        return Change(UnregisterBrokerResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message=text))
    records: list[Struct] = [UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch)]
    records += _consequences(image, replace(broker, fenced=True), rules)
    return Change(UnregisterBrokerResponse(error_message=""), records)


def stale(image: MetadataImage, *, broker_id: int, epoch: int) -> ErrorCode:
    """The error for a broker with this id and epoch, or NONE."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        return ErrorCode.BROKER_ID_NOT_REGISTERED
    return ErrorCode.NONE if broker.epoch == epoch else ErrorCode.STALE_BROKER_EPOCH


def may_lead(partition: PartitionImage, broker: int) -> bool:
    """Whether all committed records survive if this broker becomes the leader of the partition.

    They do if it is in sync or eligible (KIP-966), and if it has no replica yet and there is a leader to copy from.
    """
    if broker in partition.replicas:
        return broker in partition.isr or broker in partition.eligible_replicas
    return partition.leader != NO_LEADER


def move_leader(topic: TopicImage, partition: PartitionImage, to: int, image: MetadataImage) -> PartitionChangeRecord:
    """Make a broker the leader; without a replica it takes the place of the present leader in the list.

    One that is out of sync becomes the leader too; records that it has not acknowledged are lost: see `may_lead`.
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
    """The changes for the partitions of a broker with this new state; it may have lost records."""
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
