"""The records of the producers: transfers of money between accounts, one record for each account of a transfer."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from random import Random

import msgspec
from msgspec import Struct

__all__ = ["NEVER_COMMITTED", "Fate", "Plan", "Posting", "decode_posting", "encode_posting", "plans"]

ACCOUNTS = 64
PAYEES_MAX = 3
AMOUNT_MAX = 100


class Fate(StrEnum):
    """The planned outcome of a transaction, which each of its records holds."""

    COMMIT = "commit"
    ABORT = "abort"
    CRASH_SENDING = "crash while sending"
    CRASH_OPEN = "crash before the end"
    CRASH_COMMITTING = "crash in the commit"


CRASHES = (Fate.CRASH_SENDING, Fate.CRASH_OPEN, Fate.CRASH_COMMITTING)
# A crash in the commit may come too late to prevent it.
NEVER_COMMITTED = frozenset({Fate.ABORT, Fate.CRASH_SENDING, Fate.CRASH_OPEN})


class Posting(Struct, frozen=True):
    """One record: the change of one account in a transfer. The amounts of a transfer add up to 0."""

    transfer: str
    part: int
    parts: int
    account: str
    amount: int
    fate: Fate


class Plan(Struct, frozen=True):
    """A transaction before it begins."""

    transfer: str
    fate: Fate
    postings: tuple[Posting, ...]


encode_posting = msgspec.json.Encoder().encode
decode_posting = msgspec.json.Decoder(Posting).decode


def plans(run: str, random: Random, *, abort_every: int, crash_every: int) -> Iterator[Plan]:
    """An endless iterator over the transactions of one instance of a producer.

    On average every `abort_every`-th aborts and every `crash_every`-th crashes; 0: never.
    """
    number = 0
    while True:
        number += 1
        fate = _fate(random, abort_every, crash_every)
        yield Plan(f"{run}-{number}", fate, tuple(_postings(f"{run}-{number}", fate, random)))


def _fate(random: Random, abort_every: int, crash_every: int) -> Fate:
    if crash_every and random.random() < 1 / crash_every:
        return random.choice(CRASHES)
    return Fate.ABORT if abort_every and random.random() < 1 / abort_every else Fate.COMMIT


def _postings(transfer: str, fate: Fate, random: Random) -> Iterator[Posting]:
    payer, *payees = random.sample(range(ACCOUNTS), 2 + random.randrange(PAYEES_MAX))
    amounts = [random.randint(1, AMOUNT_MAX) for _ in payees]
    for part, (account, amount) in enumerate(zip((payer, *payees), (-sum(amounts), *amounts), strict=True)):
        yield Posting(transfer, part, len(payees) + 1, f"account-{account:02}", amount, fate)
