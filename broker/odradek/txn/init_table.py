"""What InitProducerId does (KIP-360, "Safe Epoch Incrementing"; Kafka's `prepareInitProducerIdTransit`).

First the request is checked for itself, then its claim is classified, then the table answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from odradek.core.machine import Refused
from odradek.txn.entry import EPOCH_LAST_USABLE, NONE, TIMEOUT_NEVER, Entry
from odradek.txn.states import PREPARED, RESTING, TxnState
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest

__all__ = [
    "INIT",
    "INIT_KEEPING",
    "REQUEST_CHECKS",
    "InitAction",
    "InitAnswer",
    "InitRelation",
    "InitTable",
    "RequestCheck",
    "init_relation",
    "init_timeout",
    "request_refusal",
]


class Limits(Protocol):
    """What the configuration of a broker says of InitProducerId."""

    @property
    def transaction_max_timeout_ms(self) -> int: ...
    @property
    def transaction_two_phase_commit_enable(self) -> bool: ...


class InitRelation(Enum):
    """How the producer id and epoch of a request lie to those of the transactional id."""

    NEW_INSTANCE = "none given"
    CURRENT = "present epoch"
    RETRY = "last epoch"
    """The epoch before the latest bump, of which the sender may not have heard."""
    STALE = "another epoch"
    STRANGER = "another producer id"


class InitAction(Enum):
    """What is done where nothing is refused."""

    BUMP = "bump"
    BUMP_KEEPING_LAST = "bump, keep the last epoch"
    ROTATE = "new producer id"
    ROTATE_KEEPING_LAST = "new producer id, keep the last epoch"
    REPLAY = "present epoch again"
    ANSWER = "present epoch again, and an open transaction stays"
    KEEP = "bump the owner's epoch beside the open transaction"
    KEEP_ROTATING = "new producer id for the owner of the open transaction"
    FENCE = "abort the open transaction with the bumped epoch, then CONCURRENT_TRANSACTIONS"


InitAnswer = InitAction | ErrorCode
InitTable = Mapping[tuple[TxnState, InitRelation, bool], InitAnswer]


def _resting() -> dict[tuple[InitRelation, bool], InitAnswer]:
    return {
        (InitRelation.NEW_INSTANCE, False): InitAction.BUMP,
        (InitRelation.NEW_INSTANCE, True): InitAction.ROTATE,
        (InitRelation.CURRENT, False): InitAction.BUMP_KEEPING_LAST,
        (InitRelation.CURRENT, True): InitAction.ROTATE_KEEPING_LAST,
        (InitRelation.RETRY, False): InitAction.REPLAY,
        # KIP-360, 2b. Kafka has run out of epochs here and answers UNKNOWN_SERVER_ERROR.
        (InitRelation.RETRY, True): InitAction.REPLAY,
        (InitRelation.STALE, False): ErrorCode.PRODUCER_FENCED,
        (InitRelation.STALE, True): ErrorCode.UNKNOWN_SERVER_ERROR,
        (InitRelation.STRANGER, False): ErrorCode.PRODUCER_FENCED,
        (InitRelation.STRANGER, True): ErrorCode.PRODUCER_FENCED,
    }


def _init() -> dict[tuple[TxnState, InitRelation, bool], InitAnswer]:
    table: dict[tuple[TxnState, InitRelation, bool], InitAnswer] = dict.fromkeys(
        product(TxnState, InitRelation, (False, True)), ErrorCode.UNKNOWN_SERVER_ERROR
    )
    resting = _resting()
    for relation, exhausted in product(InitRelation, (False, True)):
        for state in RESTING:
            table[state, relation, exhausted] = resting[relation, exhausted]
        # Whoever knows the producer id ends the transaction, whatever its epoch.
        known = relation is not InitRelation.STRANGER
        table[TxnState.ONGOING, relation, exhausted] = InitAction.FENCE if known else ErrorCode.PRODUCER_FENCED
        for state in PREPARED:
            table[state, relation, exhausted] = (
                ErrorCode.CONCURRENT_TRANSACTIONS if known else ErrorCode.PRODUCER_FENCED
            )
    return table


INIT: InitTable = MappingProxyType(_init())
"""The answer by state, relation, and whether the epochs of the producer id are used up."""

INIT_KEEPING: InitTable = MappingProxyType(dict.fromkeys(INIT, ErrorCode.UNSUPPORTED_VERSION))
"""The same where a prepared transaction is to be kept (KIP-939), which Kafka 4.4 has not got to."""


def init_relation(request: InitProducerIdRequest, entry: Entry) -> InitRelation:
    """Classify the claim of a request."""
    producer_id, epoch = request.producer_id, request.producer_epoch
    if producer_id == NONE:
        return InitRelation.NEW_INSTANCE
    rotated_away = producer_id == entry.previous_producer_id and epoch >= EPOCH_LAST_USABLE
    if producer_id != entry.owner_id and not rotated_away:
        return InitRelation.STRANGER
    if epoch == entry.owner_epoch:
        return InitRelation.CURRENT
    return InitRelation.RETRY if epoch == entry.last_producer_epoch else InitRelation.STALE


def init_timeout(request: InitProducerIdRequest) -> int:
    """The timeout the id gets: a two-phase commit has none (KIP-939)."""
    return TIMEOUT_NEVER if request.enable2_pc else request.transaction_timeout_ms


class RequestCheck(Struct, frozen=True):
    """One condition on the request alone."""

    meaning: str
    error: ErrorCode
    holds: Callable[[InitProducerIdRequest, Limits], bool]


def _has_valid_timeout(request: InitProducerIdRequest, config: Limits) -> bool:
    return request.enable2_pc or 0 < request.transaction_timeout_ms <= config.transaction_max_timeout_ms


REQUEST_CHECKS = (
    RequestCheck(
        "producer id and epoch are given together",
        ErrorCode.INVALID_REQUEST,
        lambda request, config: (request.producer_id == NONE) == (request.producer_epoch == NONE),
    ),
    RequestCheck(
        "the transactional id is not empty",
        ErrorCode.INVALID_REQUEST,
        lambda request, config: request.transactional_id != "",
    ),
    RequestCheck(
        "two-phase commit is enabled if asked for",
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        lambda request, config: not request.enable2_pc or config.transaction_two_phase_commit_enable,
    ),
    RequestCheck(
        "no prepared transaction is to be kept",
        ErrorCode.UNSUPPORTED_VERSION,
        lambda request, config: not request.keep_prepared_txn,
    ),
    RequestCheck("the timeout is allowed", ErrorCode.INVALID_TRANSACTION_TIMEOUT, _has_valid_timeout),
)
"""Checks of a request with a transactional id, in order; one without an id has to pass the first only."""


def request_refusal(
    request: InitProducerIdRequest, config: Limits, checks: tuple[RequestCheck, ...] = REQUEST_CHECKS
) -> Refused | None:
    """The first check that the request fails, before anybody asks where its coordinator is."""
    for check in checks if request.transactional_id is not None else checks[:1]:
        if not check.holds(request, config):
            return Refused(check.error)
    return None
