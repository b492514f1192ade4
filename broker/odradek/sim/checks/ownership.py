"""Ownership of transactional ids: the instance that got an id last owns it (KIP-98, KIP-360).

It follows from the requests and responses of clients alone. An instance that was replaced does nothing more with the
id. The owner is not refused while no other instance asks for the id and its transaction has not timed out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from odradek.sim.model.promises import Problem
from odradek.sim.schedules.nemesis import Forced
from odradek.sim.world.actors import Asked
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from odradek.wire.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.produce_request import ProduceRequest
from odradek.wire.messages.txn_offset_commit_request import TxnOffsetCommitRequest

__all__ = ["owners_problems"]

NONE = -1
TURNED_AWAY = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""Errors for an instance that does not own the id, or has no transaction to end."""
UNSURE = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""Errors of a coordinator that lost its log or lacks replicas: its decision may still take effect."""
_ERROR_OF: Mapping[type, Callable[[Any], int]] = {
    InitProducerIdRequest: lambda answer: answer.error_code,
    AddPartitionsToTxnRequest: lambda answer: (
        answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    ),
    AddOffsetsToTxnRequest: lambda answer: answer.error_code,
    EndTxnRequest: lambda answer: answer.error_code,
    TxnOffsetCommitRequest: lambda answer: answer.topics[0].partitions[0].error_code,
    ProduceRequest: lambda answer: answer.responses[0].partition_responses[0].error_code,
}
_JUDGED = (InitProducerIdRequest, AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, EndTxnRequest)
"""Requests that the coordinator of the id answers."""


class _Taken(Struct, frozen=True):
    """An InitProducerId of a new instance."""

    by: str
    at: int
    done_at: int | None
    """When it was answered; None: unknown whether and when it took effect."""
    is_given: bool


def owners_problems(
    asked: Sequence[Asked],
    *,
    timeout_ms: int,
    forced: Sequence[Forced] = (),
    forgets: bool = False,
    forgets_bumps: bool = False,
    is_prompt: bool = False,
) -> Iterator[Problem]:
    """Zombies and wrongly fenced owners, by the requests and responses. `timeout_ms`: the timeout of transactions.

    `forgets`: transactional ids expire. `forgets_bumps`: a coordinator that takes over does not know the last epoch,
    for which the log of level 0 has no field; it fences a producer that retries a bump, as Kafka's does.
    `is_prompt`: no broker stands still, so a request without an answer took effect by its timeout, or never does.
    """
    of_ids: dict[str, list[Asked]] = {}
    for each in asked:
        name = _id_of(each.request)
        if name:
            of_ids.setdefault(name, []).append(each)
    for name, requests in of_ids.items():
        takes = {
            id(each): _taken(each, is_prompt=is_prompt)
            for each in requests
            if _takes(each.request) or (forgets and _finds_nobody(each))
        }
        taken = [*takes.values()]
        taken += [_Taken("force", each.at, each.at, True) for each in forced if each.transactional_id == name]
        owned: dict[str, _Taken] = {}
        """The last InitProducerId of each instance, which sends nothing else before its answer."""
        for each in requests:
            take = takes.get(id(each))
            if take is not None:
                if take.is_given:
                    owned[each.name] = take
                continue
            own = owned.get(each.name)
            if own is None or each.response is None or each.ended_at is None:
                continue
            error = _ERROR_OF[type(each.request)](each.response)
            if error == ErrorCode.NONE:
                yield from _of_a_zombie(name, each, own.done_at or 0, taken)
            elif not forgets and not (forgets_bumps and _repeats_a_bump(each, requests)):
                yield from _of_an_owner(
                    name, each, ErrorCode(error), own, taken, requests, timeout_ms=timeout_ms, is_prompt=is_prompt
                )


def _given(taken: Sequence[_Taken]) -> Iterator[tuple[_Taken, int]]:
    return ((one, one.done_at) for one in taken if one.is_given and one.done_at is not None)


def _of_a_zombie(name: str, asked: Asked, own_at: int, taken: Sequence[_Taken]) -> Iterator[Problem]:
    for later, given_at in _given(taken):
        if later.by != asked.name and own_at < later.at and given_at < asked.at:
            what = type(asked.request).__name__.removesuffix("Request")
            yield Problem("zombie", f"{asked.name} did {what} with {name}, which {later.by} was given before")
            return


def _of_an_owner(
    name: str,
    asked: Asked,
    error: ErrorCode,
    own: _Taken,
    taken: Sequence[_Taken],
    requests: Sequence[Asked],
    *,
    timeout_ms: int,
    is_prompt: bool,
) -> Iterator[Problem]:
    request = asked.request
    if error not in TURNED_AWAY or not isinstance(request, _JUDGED) or asked.ended_at is None:
        return
    if error is ErrorCode.INVALID_TXN_STATE and isinstance(request, EndTxnRequest) and not _must_end(asked, requests):
        return
    # If brokers stand still, a request without an answer may take effect long after it was sent.
    until = asked.ended_at
    if any(one is not own and one.at <= until and (one.done_at is None or one.done_at >= own.at) for one in taken):
        return
    others = (
        each
        for each in requests
        if each.name != asked.name and each.at <= until and isinstance(each.request, InitProducerIdRequest)
    )
    if any(
        each.ended_at is None or each.ended_at >= own.at or (each.response is None and not is_prompt) for each in others
    ):
        return
    begun = max(
        (each.ended_at or 0 for each in requests if each.name == asked.name and each.at < asked.at and _ends(each)),
        default=own.done_at or 0,
    )
    if asked.ended_at - begun >= timeout_ms:
        return
    what = type(request).__name__.removesuffix("Request")
    yield Problem("fenced owner", f"{asked.name} was told {error.name} to its {what} of {name}, which nobody else had")


def _must_end(asked: Asked, requests: Sequence[Asked]) -> bool:
    """Whether EndTxn must succeed: a newer client may end an empty transaction, an older one may not."""
    request = asked.request
    assert isinstance(request, EndTxnRequest)
    if asked.version >= 5:
        return not any(
            isinstance(each.request, EndTxnRequest)
            and each.name == asked.name
            and each.request.producer_epoch == request.producer_epoch
            and each.request.producer_id == request.producer_id
            and each.request.committed is not request.committed
            for each in requests
        )
    return bool(request.committed)


def _repeats_a_bump(asked: Asked, requests: Sequence[Asked]) -> bool:
    """Whether it retries a bump that had no answer, and may have taken effect."""
    return isinstance(asked.request, InitProducerIdRequest) and any(
        each.name == asked.name
        and each.at < asked.at
        and each.request == asked.request
        and (each.response is None or each.response.error_code in UNSURE)
        for each in requests
    )


def _ends(asked: Asked) -> bool:
    """Whether the next transaction begins after this request."""
    request = asked.request
    if not isinstance(request, EndTxnRequest | InitProducerIdRequest) or asked.response is None:
        return False
    return bool(asked.response.error_code == ErrorCode.NONE)


def _takes(request: Struct) -> bool:
    return isinstance(request, InitProducerIdRequest) and request.producer_id == NONE


def _finds_nobody(asked: Asked) -> bool:
    """Whether the id had expired when its next epoch was asked for: the next instance is the first one then."""
    request = asked.request
    if not isinstance(request, InitProducerIdRequest) or asked.response is None:
        return False
    return bool(asked.response.error_code == ErrorCode.NONE and asked.response.producer_id != request.producer_id)


def _taken(asked: Asked, *, is_prompt: bool) -> _Taken:
    if asked.response is None:
        return _Taken(asked.name, asked.at, asked.ended_at if is_prompt else None, False)
    return _Taken(asked.name, asked.at, asked.ended_at, asked.response.error_code == ErrorCode.NONE)


def _id_of(request: Struct) -> str | None:
    if isinstance(request, AddPartitionsToTxnRequest):
        return request.v3_and_below_transactional_id
    if type(request) in _ERROR_OF:
        name: str | None = request.transactional_id  # type: ignore[attr-defined]
        return name
    return None
