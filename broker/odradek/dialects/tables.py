"""What a dialect's `tables.py` says: rows that stand in for rows of the broker's tables, and what is put around routes.

    from odradek.dialects.tables import Tables

    TABLES = Tables(end_txn_bumping={(TxnState.EMPTY, Outcome.COMMIT, EpochRelation.CURRENT): ErrorCode.NONE})

The names are those of `odradek.txn.rules.Rules`; the rows are printed in `docs/states.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from odradek.dialects.errors import DialectError
from odradek.host.call import Around
from odradek.host.router import SERVED
from odradek.txn.checks import Check, CheckOfOwn, Condition, Operation
from odradek.txn.end_table import EndAction, EndAnswer
from odradek.txn.init_table import InitAction, InitAnswer, InitRelation, RequestCheck
from odradek.txn.rules import Rules, Transitions, ValueFormat
from odradek.txn.states import EpochRelation, Outcome, TxnState
from odradek.txn.verification_errors import ClientError, TransactionOperation
from odradek.wire.errors import ErrorCode
from odradek.wire.registry import ApiKey

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Tables", "changes_of", "over"]

EndRow = tuple[TxnState, Outcome, EpochRelation]
InitRow = tuple[TxnState, InitRelation, bool]
ErrorRow = tuple[TransactionOperation, ErrorCode]


class Tables(Struct, frozen=True, kw_only=True):
    """Rows to be put in place of the broker's; what is not named stays."""

    end_txn: Mapping[EndRow, EndAnswer] = {}
    end_txn_bumping: Mapping[EndRow, EndAnswer] = {}
    end_client_versions: Mapping[tuple[int, bool], int] = {}
    add_client_versions: Mapping[int, int] = {}
    init: Mapping[InitRow, InitAnswer] = {}
    init_keeping: Mapping[InitRow, InitAnswer] = {}
    checks: Mapping[Operation, tuple[Condition, ...]] = {}
    """The whole order of checks of an operation."""
    request_checks: Mapping[str, RequestCheck | None] = {}
    """By the meaning of the check that is replaced; None: there is no such check."""
    verdicts: Mapping[ErrorRow, ErrorCode] = {}
    request_verdicts: Mapping[ErrorCode, ErrorCode] = {}
    produce_errors: Mapping[ErrorRow, ClientError] = {}
    offset_commit_errors: Mapping[ErrorRow, ErrorCode] = {}
    waiting: Mapping[Operation, bool] = {}
    """Whether a request waits while markers are owed, rather than being told CONCURRENT_TRANSACTIONS."""
    transitions: Transitions | None = None
    """What becomes of a transaction that ends."""
    value: ValueFormat | None = None
    """How an entry is written in `__transaction_state`."""
    around: Mapping[ApiKey, Around] = {}
    """What stands around a route: it gets the node, the call and the route, and answers."""


_ANSWERS: Mapping[str, tuple[type, ...]] = {
    "end_txn": (EndAction, ErrorCode),
    "end_txn_bumping": (EndAction, ErrorCode),
    "end_client_versions": (int,),
    "add_client_versions": (int,),
    "init": (InitAction, ErrorCode),
    "init_keeping": (InitAction, ErrorCode),
    "checks": (tuple,),
    "waiting": (bool,),
    "verdicts": (ErrorCode,),
    "request_verdicts": (ErrorCode,),
    "produce_errors": (ClientError,),
    "offset_commit_errors": (ErrorCode,),
}
_SPARSE = frozenset({"verdicts", "request_verdicts", "produce_errors", "offset_commit_errors"})
"""Tables that have rows only where something is read as something else: any pair of the right kind is a row."""
_SERVED = frozenset(served.api_key for served in SERVED if served.is_for_clients)


def over(rules: Rules, tables: Tables, file: Path) -> Rules:
    """The rules with the rows of the tables in theirs. Raises `DialectError` for a row that does not exist."""
    changed: dict[str, Any] = {}
    for name, answers in _ANSWERS.items():
        rows: Mapping[Any, Any] = getattr(tables, name)
        if rows:
            below: Mapping[Any, Any] = getattr(rules, name)
            _check(file, name, rows, below, answers)
            changed[name] = MappingProxyType({**below, **rows})
    if tables.request_checks:
        changed["request_checks"] = _request_checks(file, rules, tables.request_checks)
    if tables.value is not None:
        changed["value"] = tables.value
    if tables.transitions is not None:
        changed["transitions"] = tables.transitions
    for api_key in tables.around:
        if api_key not in _SERVED:
            raise DialectError(file, "around", f"the broker serves no {_shown(api_key)}")
    return replace(rules, **changed) if changed else rules


def _check(file: Path, name: str, rows: Mapping[Any, Any], below: Mapping[Any, Any], answers: tuple[type, ...]) -> None:
    for row, answer in rows.items():
        if row not in below and not (name in _SPARSE and _is_error_row(name, row)):
            raise DialectError(file, f"{name}[{_shown(row)}]", f"there is no such row in the table {name.upper()}")
        wanted = " or ".join(each.__name__ for each in answers)
        if not isinstance(answer, answers):
            raise DialectError(file, f"{name}[{_shown(row)}]", f"a row answers with {wanted}, not with {answer!r}")
        if isinstance(answer, tuple) and not all(isinstance(each, Check | CheckOfOwn) for each in answer):
            raise DialectError(file, f"{name}[{_shown(row)}]", "a row holds checks, as Check or CheckOfOwn")


def _is_error_row(name: str, row: object) -> bool:
    if name == "request_verdicts":
        return isinstance(row, ErrorCode)
    return (
        isinstance(row, tuple)
        and len(row) == 2
        and isinstance(row[0], TransactionOperation)
        and isinstance(row[1], ErrorCode)
    )


def _request_checks(file: Path, rules: Rules, changed: Mapping[str, RequestCheck | None]) -> tuple[RequestCheck, ...]:
    known = {check.meaning: check for check in rules.request_checks}
    for meaning in changed:
        if meaning not in known:
            rule = f"there is no such check: there are {', '.join(map(repr, known))}"
            raise DialectError(file, f"request_checks[{meaning!r}]", rule)
    return tuple(check for check in {**known, **changed}.values() if check is not None)


def changes_of(tables: Tables, rules: Rules) -> Iterable[tuple[str, str, str]]:
    """Each row that a dialect changes: its name, the answer of the rules below, and the dialect's."""
    for name in _ANSWERS:
        below: Mapping[Any, Any] = getattr(rules, name)
        rows: dict[Any, Any] = dict(getattr(tables, name))
        for row, answer in rows.items():
            yield f"{name.upper()}[{_shown(row)}]", _shown(below.get(row, "as it is")), _shown(answer)
    for meaning, check in tables.request_checks.items():
        yield f"check: {meaning}", "asked", "not asked" if check is None else check.meaning
    if tables.value is not None:
        yield "value of the transaction log", "Kafka's", "its own"
    if tables.transitions is not None:
        yield "end of a transaction", "Kafka's", "its own"
    for api_key in tables.around:
        yield f"route of {_shown(api_key)}", "Kafka's", "with a step around it"


def _shown(value: object) -> str:
    match value:
        case tuple():
            return ", ".join(map(_shown, value))
        case bool():
            return str(value)
        case TxnState():
            return value.title
        case ErrorCode() | ApiKey():
            return value.name
        case Check() | CheckOfOwn():
            return value.meaning
        case ClientError():
            return value.error.name
        case Enum():
            return str(value.value)
        case _:
            return str(value)
