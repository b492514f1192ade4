"""Mutants of a right client as data: each breaks one sentence, on the wire or in what the driver says of it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

__all__ = ["Change", "Mutant", "Told", "mutants"]

TABLE = Path(__file__).with_name("mutants.toml")


class Change(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change of requests or answers of one API, as they pass.

    Fields are named as in the generated messages; `a.b` goes into each element of lists. `batch.sequence`,
    `batch.epoch`, `batch.producer_id` and `batch.transactional` are those of the batches in a Produce.
    """

    api: str
    versions: str = "0+"
    where: dict[str, Any] = {}
    """Fields of the request that have these values."""
    nth: str = "1+"
    """Which of the requests, counted in each cluster: `2`, `2+`."""
    error: list[str] = []
    """The change is of the answer, where it has one of these errors."""
    after: str = ""
    """Only once a request of this API was answered without an error."""
    set: dict[str, Any] = {}
    """New values of fields in the request: a value, `null`, `+1`, or `first`: that at the first of the requests."""
    answer: dict[str, Any] = {}
    """New values of fields in the answer; `last` leaves of a list its last element."""
    again: int = 0
    """So many copies are sent besides, at once; the client learns nothing of them."""
    late: str = ""
    """A copy is sent when a request of this API is answered."""
    meanwhile: str = ""
    """A copy is sent behind a request of this API, before that is answered."""
    early: bool = False
    """The client is told at once that all is well; what the broker answers it never learns."""
    added: bool = False
    """What the request is about is first added to the transaction, by AddPartitionsToTxn v3 or AddOffsetsToTxn v4."""
    swallow: bool = False
    """The request is not sent; the client is told that all is well."""
    hammer: int = 0
    """An answer with one of the errors has the request sent again at once, so often, before the client is told."""
    hang_up: bool = False
    """The connection ends in the place of the answer."""


class Told(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change of what the driver answers, or of what it is asked."""

    verb: str
    nth: str = "1+"
    error: list[str] = []
    """Only answers that are one of these errors; `any` is each of them."""
    category: str = ""
    """The class that is told in the place of the right one."""
    name: str = ""
    done: bool = False
    """Success is told."""
    skip: bool = False
    """The client is not asked, and success is told."""
    also: str = ""
    """A verb that the client is asked to do before the answer is told."""
    before: str = ""
    """A verb that the client is asked to do first."""
    records: str = ""
    """Of a poll: `twice` or `none`."""
    config: dict[str, Any] = {}
    """Settings of `init` that are changed; null takes one away."""


class Mutant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that a client does wrong."""

    name: str
    about: str
    """What it does wrong, as a sentence."""
    killed_by: list[str]
    """Patterns of the ids of scenarios that have to fail."""
    wire: list[Change] = []
    told: list[Told] = []
    features: dict[str, int] = {}
    """Levels of features that the client believes in place of those that it is told."""
    cap: dict[str, int] = {}
    """The highest versions of APIs that the client believes the broker to have."""


def mutants() -> list[Mutant]:
    """Those of the table."""
    return msgspec.convert(tomllib.loads(TABLE.read_text())["mutant"], list[Mutant])
