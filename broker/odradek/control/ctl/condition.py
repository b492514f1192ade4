"""The condition of `odradek ctl wait`, in words: `transaction till-1 CompleteCommit`, `rule late held 1`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from odradek.cli.usage import UsageError
from odradek.core.wording import meant

__all__ = ["WAITED_FOR", "condition_of"]


class Waited(Struct, frozen=True, kw_only=True):
    """The words about one kind of thing: `KIND NAME [STATE] [NUMBER N] …`."""

    example: str
    subject: Callable[[str], dict[str, object]]
    """From the name to the fields of the condition that identify the thing."""
    has_state: bool = False
    needs_state: bool = False
    numbers: tuple[str, ...] = ()


def _partition(name: str) -> dict[str, object]:
    topic, _, index = name.rpartition("-")
    if not topic or not _is_number(index):
        raise UsageError(f"A partition is TOPIC-NUMBER, such as orders-2, not {name}.")
    return {"topic": topic, "partition": int(index)}


WAITED_FOR: Mapping[str, Waited] = MappingProxyType(
    {
        "transaction": Waited(
            example="till-1 CompleteCommit", subject=lambda name: {"id": name}, has_state=True, needs_state=True
        ),
        "rule": Waited(example="late held 1", subject=lambda name: {"name": name}, numbers=("hits", "held")),
        "partition": Waited(
            example="orders-2 last_stable_offset 3",
            subject=_partition,
            numbers=("last_stable_offset", "high_watermark"),
        ),
        "group": Waited(
            example="kitchen Stable members 2", subject=lambda name: {"id": name}, has_state=True, numbers=("members",)
        ),
    }
)
"""The kinds, by their field in the body of `POST /wait`."""


def condition_of(words: Sequence[str]) -> dict[str, object]:
    """The body of `POST /wait` for these words. Raises UsageError."""
    kind, *said = words
    waited = WAITED_FOR.get(kind)
    if waited is None:
        raise UsageError(f"There is no wait for {kind}: {meant(kind, WAITED_FOR)}")
    if not said:
        raise UsageError(f"Which {kind}? Such as: wait {kind} {waited.example}.")
    name, *rest = said
    condition = waited.subject(name)
    if waited.has_state and rest and rest[0] not in waited.numbers:
        condition["state"] = rest.pop(0)
    if waited.needs_state and "state" not in condition:
        raise UsageError(f"In which state is {kind} {name} to be? Such as: wait {kind} {waited.example}.")
    return {kind: condition | _numbers(kind, waited, rest)}


def _numbers(kind: str, waited: Waited, words: Sequence[str]) -> dict[str, int]:
    """Numbers after words, such as `held 1 hits 2`."""
    found: dict[str, int] = {}
    for at in range(0, len(words), 2):
        what, number = words[at], "".join(words[at + 1 : at + 2])
        if what not in waited.numbers:
            known = meant(what, waited.numbers) if waited.numbers else "its state says it all."
            raise UsageError(f"A {kind} has no {what} to wait for: {known}")
        if what in found:
            raise UsageError(f"{what} is given twice.")
        if not _is_number(number):
            raise UsageError(f"{what} is a whole number, not {number or 'nothing'}: {what} N.")
        found[what] = int(number)
    return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20
