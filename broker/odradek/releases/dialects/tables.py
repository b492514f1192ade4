"""The rows of a dialect's `tables.py`, which replace rows of the broker's tables.

    from odradek.releases.dialects.tables import Tables

    TABLES = Tables(end_txn_bumping={(TxnState.EMPTY, Outcome.COMMIT, EpochRelation.CURRENT): ErrorCode.NONE})

The names are those of `odradek.txn.decision_tables.Rules`; the rows are printed in `docs/states.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from odradek.releases.dialects.errors import DialectError
from odradek.txn.checks import Check, CheckOfOwn, Condition, Operation
from odradek.txn.decision_tables import Rules, Transitions, ValueFormat
from odradek.txn.end_table import EndAction, EndAnswer
from odradek.txn.init_table import InitAction, InitAnswer, InitRelation, RequestCheck
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
    """Rows that replace the broker's; all others stay."""

    end_txn: Mapping[EndRow, EndAnswer] = {}
    end_txn_bumping: Mapping[EndRow, EndAnswer] = {}
    end_client_versions: Mapping[tuple[int, bool], int] = {}
    add_client_versions: Mapping[int, int] = {}
    init: Mapping[InitRow, InitAnswer] = {}
    init_keeping: Mapping[InitRow, InitAnswer] = {}
    checks: Mapping[Operation, tuple[Condition, ...]] = {}
    """The whole order of checks of an operation."""
    request_checks: Mapping[str, RequestCheck | None] = {}
    """Replacements by the meaning of the check; None: the check is dropped."""
    verdicts: Mapping[ErrorRow, ErrorCode] = {}
    request_verdicts: Mapping[ErrorCode, ErrorCode] = {}
    produce_errors: Mapping[ErrorRow, ClientError] = {}
    offset_commit_errors: Mapping[ErrorRow, ErrorCode] = {}
    waiting: Mapping[Operation, bool] = {}
    """Whether a request waits while markers are owed; otherwise it is answered CONCURRENT_TRANSACTIONS."""
    transitions: Transitions | None = None
    """The entry of a transaction at its end."""
    value: ValueFormat | None = None
    """The format of an entry in `__transaction_state`."""


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
"""Tables with rows only for errors that are translated: any pair of the right types may be a row."""


def over(rules: Rules, tables: Tables, file: Path) -> Rules:
    """The rules with these rows in their tables. Raises `DialectError` for a row that does not exist."""
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
    """Each changed row: its name, the answer of the base, and the answer of the dialect."""
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
