"""The decision tables of a coordinator and of leaders, as one value: Kafka's, or those of a dialect.

Decided once, when a node starts. `SHIPPED` is Kafka 4.4; the releases differ from it by their own switches only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from odradek.txn.checks import CHECKS, Condition, Operation
from odradek.txn.end_table import (
    ADD_CLIENT_VERSIONS,
    END_CLIENT_VERSIONS,
    END_TXN,
    END_TXN_BUMPING,
    EndProtocol,
    EndTable,
)
from odradek.txn.entry import Entry, decode_entry, encode_entry
from odradek.txn.init_table import INIT, INIT_KEEPING, REQUEST_CHECKS, InitTable, RequestCheck
from odradek.txn.transitions import check_transition, completed
from odradek.txn.verification_errors import (
    OFFSET_COMMIT_ERRORS,
    PRODUCE_ERRORS,
    REQUEST_VERDICTS,
    SINCE,
    VERDICTS,
    ClientError,
    Since,
    TransactionOperation,
)

if TYPE_CHECKING:
    from odradek.releases.release import Release
    from odradek.wire.errors import ErrorCode
    from odradek.wire.messages.end_txn_request import EndTxnRequest

__all__ = ["SHIPPED", "WAITING", "Rules", "Transitions", "ValueFormat", "rules_of"]

WAITING: Mapping[Operation, bool] = MappingProxyType(dict.fromkeys(Operation, False))
"""Whether a request waits while markers are owed, instead of an answer CONCURRENT_TRANSACTIONS."""


class ValueFormat(Struct, frozen=True):
    """How an entry becomes the value of its record, and is found again."""

    encode: Callable[[Entry, int], bytes] = encode_entry
    """The entry, and the version of the value."""
    decode: Callable[[str, bytes], Entry | None] = decode_entry
    """The transactional id, and the value; None for one that nobody here has written."""


def _as_prepared(entry: Entry, request: EndTxnRequest, version: int) -> Entry:
    return entry


class Transitions(Struct, frozen=True):
    """Pure functions about the end of a transaction that a dialect may replace."""

    ended: Callable[[Entry, EndTxnRequest, int], Entry] = _as_prepared
    """EndTxn without a bump: from the prepared entry, the request and its version to the written entry."""
    completed: Callable[[Entry, int], Entry] = completed
    """The entry after all its markers are written, at a time (ms)."""
    check: Callable[[Entry | None, Entry], None] = check_transition
    """Asserts the invariants of every transition."""


class Rules(Struct, frozen=True, kw_only=True, dict=True):
    """The tables, by their names in `docs/states.md`."""

    since: Since = SINCE
    end_txn: EndTable = END_TXN
    end_txn_bumping: EndTable = END_TXN_BUMPING
    end_client_versions: Mapping[tuple[int, bool], int] = END_CLIENT_VERSIONS
    add_client_versions: Mapping[int, int] = ADD_CLIENT_VERSIONS
    init: InitTable = INIT
    init_keeping: InitTable = INIT_KEEPING
    checks: Mapping[Operation, tuple[Condition, ...]] = CHECKS
    request_checks: tuple[RequestCheck, ...] = REQUEST_CHECKS
    verdicts: Mapping[tuple[TransactionOperation, ErrorCode], ErrorCode] = VERDICTS
    request_verdicts: Mapping[ErrorCode, ErrorCode] = REQUEST_VERDICTS
    produce_errors: Mapping[tuple[TransactionOperation, ErrorCode], ClientError] = PRODUCE_ERRORS
    offset_commit_errors: Mapping[tuple[TransactionOperation, ErrorCode], ErrorCode] = OFFSET_COMMIT_ERRORS
    waiting: Mapping[Operation, bool] = WAITING
    value: ValueFormat = ValueFormat()
    transitions: Transitions = Transitions()

    @cached_property
    def keeping(self) -> EndProtocol:
        """EndTxn up to the version before `since.end_bumps`."""
        return EndProtocol(self.checks[Operation.END], self.end_txn, bumps=False)

    @cached_property
    def bumping(self) -> EndProtocol:
        """EndTxn from version `since.end_bumps` on."""
        return EndProtocol(self.checks[Operation.END_BUMPING], self.end_txn_bumping, bumps=True)

    def verdict(self, operation: TransactionOperation, error: ErrorCode) -> ErrorCode:
        """The leader's interpretation of the coordinator's answer for a partition."""
        return self.verdicts.get((operation, error), error)

    def request_verdict(self, error: ErrorCode) -> ErrorCode:
        """The leader's interpretation of the coordinator's answer to the whole request."""
        return self.request_verdicts.get(error, error)

    def produce_error(self, operation: TransactionOperation, error: ErrorCode) -> ClientError:
        """A verdict as the error of a Produce."""
        return self.produce_errors.get((operation, error)) or ClientError(error)

    def offset_commit_error(self, operation: TransactionOperation, error: ErrorCode) -> ErrorCode:
        """A verdict as the error of a TxnOffsetCommit, before the mapping of errors of the group's log."""
        return self.offset_commit_errors.get((operation, error), error)


SHIPPED = Rules()
"""Kafka 4.4."""


def rules_of(release: Release) -> Rules:
    """The rules of a release: Kafka's, or its own if it is a dialect."""
    return release.part(Rules) or SHIPPED
