"""Writes `docs/states.md` from the tables that the code uses.

python -m odradek.tools.states_doc > docs/states.md
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from itertools import product

from odradek.host.endpoint import endpoints_of
from odradek.txn.api import TransactionApi
from odradek.txn.checks import CHECKS
from odradek.txn.end_table import END_TXN, END_TXN_BUMPING, EndTable
from odradek.txn.init_table import INIT, REQUEST_CHECKS, InitRelation
from odradek.txn.states import ALLOWED, EpochRelation, Outcome, TxnState
from odradek.txn.verification_errors import (
    PRODUCE_ERRORS,
    REQUEST_VERDICTS,
    VERDICTS,
    TransactionOperation,
)
from odradek.txn.works import MARKER_FATES
from odradek.wire.error_maps import GROUP_LOG_ERRORS, TRANSACTION_LOG_ERRORS
from odradek.wire.errors import ErrorCode

__all__ = ["states_doc"]

_STORED = tuple(state for state in TxnState if state not in (TxnState.DEAD, TxnState.PREPARE_EPOCH_FENCE))

_INTRODUCTION = """\
# States of a transactional id

Drawn from the tables the coordinator runs on by `python -m odradek.tools.states_doc`; a test compares the two.
Answers in words are actions, refusals are error codes.
"""


def states_doc() -> str:
    """The text of the page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _INTRODUCTION
    yield from _transitions()
    yield from _checks()
    yield from _init()
    yield "## EndTxn v0-4 after its checks\n"
    yield from _end(END_TXN, (EpochRelation.CURRENT,))
    yield "## EndTxn v5 after its checks (KIP-890)\n"
    yield "The epoch of the request, set against the present one, is the relation:"
    yield "_bumped retry_ is one below, _overflow retry_ is the last epoch of the producer id before,"
    yield "_one behind_ is one below an epoch that the end of its transaction has kept.\n"
    yield from _end(END_TXN_BUMPING, tuple(EpochRelation))
    yield from _markers()
    yield from _errors()


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(header) + " |"
    yield "|" + "---|" * len(header)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def _transitions() -> Iterator[str]:
    yield "## Transitions\n"
    yield "```mermaid\nstateDiagram-v2"
    for after in _STORED:
        for before in _STORED:
            if before in ALLOWED[after]:
                yield f"    {before.title} --> {after.title}"
    yield "```\n"
    yield from _table(
        ("state", "id in the log", "after"),
        (
            (state.title, str(state.value), ", ".join(before.title for before in TxnState if before in ALLOWED[state]))
            for state in TxnState
        ),
    )
    yield "Dead and PrepareEpochFence are names only: no id is ever in them.\n"


def _checks() -> Iterator[str]:
    yield "## Checks before the tables, in order\n"
    yield "The first that fails answers."
    yield "Markers are owed from Prepare to Complete; Kafka calls that a pending transition.\n"
    for operation, checks in CHECKS.items():
        yield f"### {operation.value}\n"
        yield from _table(("check", "else"), ((check.meaning, _shown(check.error)) for check in checks))


def _init() -> Iterator[str]:
    yield "## InitProducerId\n"
    yield "Of the request alone, in order:\n"
    yield from _table(("check", "else"), ((check.meaning, _shown(check.error)) for check in REQUEST_CHECKS))
    yield "Then a transaction that owes markers answers CONCURRENT_TRANSACTIONS, an unknown id gets epoch 0,"
    yield "and the table answers; _used up_ means that the present epoch is the last a client may have.\n"
    yield from _table(
        ("state", "producer id and epoch given", "epochs left", "epochs used up"),
        _merged(
            (state.title, relation.value, _shown(INIT[state, relation, False]), _shown(INIT[state, relation, True]))
            for state, relation in product(_STORED, InitRelation)
        ),
    )


def _end(table: EndTable, relations: Sequence[EpochRelation]) -> Iterator[str]:
    yield from _table(
        ("state", "relation", "commit", "abort"),
        _merged(
            (
                state.title,
                relation.value,
                _shown(table[state, Outcome.COMMIT, relation]),
                _shown(table[state, Outcome.ABORT, relation]),
            )
            for state, relation in product(_STORED, relations)
        ),
    )


def _merged(rows: Iterable[tuple[str, str, str, str]]) -> Iterator[Sequence[str]]:
    """Rows with the same first cell and the same answers, joined into one."""
    seconds: dict[tuple[str, str, str], list[str]] = {}
    for first, second, *answers in rows:
        seconds.setdefault((first, answers[0], answers[1]), []).append(second)
    for (first, *answers), names in seconds.items():
        yield first, ", ".join(names), *answers


def _markers() -> Iterator[str]:
    yield "## Answers to markers\n"
    yield "No answer, or any other error, leaves the marker owed.\n"
    yield from _table(
        ("answer", "the marker is"), ((_shown(error), fate.value) for error, fate in MARKER_FATES.items())
    )


def _errors() -> Iterator[str]:
    yield "## Errors as clients are told\n"
    yield "PRODUCER_FENCED is INVALID_PRODUCER_EPOCH for older versions:\n"
    yield from _table(
        ("request", "PRODUCER_FENCED from version"),
        (
            (each.api_key.name, str(since.version))
            for each in endpoints_of(TransactionApi).values()
            for since in each.errors
            if since.error is ErrorCode.PRODUCER_FENCED
        ),
    )
    yield "Errors of an append to `__transaction_state`:\n"
    yield from _table(
        ("append", "client"), ((_shown(error), _shown(told)) for error, told in TRANSACTION_LOG_ERRORS.items())
    )
    yield "How a leader reads the coordinator's answer to a verification:\n"
    yield from _table(("operation", "answer", "read as"), _verdicts())
    yield "How a Produce tells it:\n"
    yield from _table(("verdict", "operation", "client", "message"), _produce_errors())
    yield "How a TxnOffsetCommit tells it:\n"
    yield from _table(
        ("verdict or append", "client"), ((_shown(error), _shown(told)) for error, told in GROUP_LOG_ERRORS.items())
    )


def _verdicts() -> Iterator[Sequence[str]]:
    for (operation, error), read in VERDICTS.items():
        yield _operation(operation), _shown(error), _shown(read)
    for error, read in REQUEST_VERDICTS.items():
        yield "any, the request as a whole", _shown(error), _shown(read)


def _produce_errors() -> Iterator[Sequence[str]]:
    told = (
        (_shown(error), _operation(operation), _shown(client.error), client.message or "")
        for (operation, error), client in PRODUCE_ERRORS.items()
    )
    return _merged(told)


def _operation(operation: TransactionOperation) -> str:
    return operation.name


def _shown(answer: Enum) -> str:
    return f"{answer.name} ({answer.value})" if isinstance(answer, ErrorCode) else str(answer.value)


if __name__ == "__main__":
    print(states_doc(), end="")
