"""The effect of InitProducerId (KIP-360, "Safe Epoch Incrementing"; Kafka's `prepareInitProducerIdTransit`).

First the request is checked on its own, then its claim is classified, then the table decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.core.machine import Refused
from odradek.txn.entry import EPOCH_LAST_USABLE, NONE, TIMEOUT_NEVER, Entry
from odradek.txn.states import PREPARED, RESTING, TxnState
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.config.table import Config
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


class InitRelation(Enum):
    """The producer id and epoch of a request compared with those of the transactional id."""

    NEW_INSTANCE = "none given"
    CURRENT = "present epoch"
    RETRY = "last epoch"
    """The epoch before the latest bump; the client may not know of the bump."""
    STALE = "another epoch"
    STRANGER = "another producer id"


class InitAction(Enum):
    """The effect of a request that is not refused."""

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
        # KIP-360, 2b: the producer repeats an InitProducerId that had bumped the epoch, because it got no answer.
        # The present epoch is answered again, even if it is the last one; Kafka answers UNKNOWN_SERVER_ERROR then.
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
"""The same for a request to keep a prepared transaction (KIP-939), which Kafka 4.4 does not implement."""


def init_relation(request: InitProducerIdRequest, entry: Entry) -> InitRelation:
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
    """The timeout for the id: a two-phase commit has none (KIP-939)."""
    return TIMEOUT_NEVER if request.enable2_pc else request.transaction_timeout_ms


class RequestCheck(Struct, frozen=True):
    """A condition on the request alone."""

    meaning: str
    error: ErrorCode
    holds: Callable[[InitProducerIdRequest, Config], bool]


def _has_valid_timeout(request: InitProducerIdRequest, config: Config) -> bool:
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
"""Checks of a request with a transactional id, in order; a request without one needs only the first."""


def request_refusal(
    request: InitProducerIdRequest, config: Config, checks: tuple[RequestCheck, ...] = REQUEST_CHECKS
) -> Refused | None:
    """The first check that the request fails, before the look-up of its coordinator."""
    for check in checks if request.transactional_id is not None else checks[:1]:
        if not check.holds(request, config):
            return Refused(check.error)
    return None
