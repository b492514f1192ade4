"""Parts of sentences: numbers of things, and what was meant by a wrong name."""

from collections.abc import Iterable

__all__ = ["counted", "meant"]


def counted(number: int, one: str, many: str = "") -> str:
    """`1 broker`, `2 brokers`; `many` is the plural where it is not `one` with an s: `2 crashes`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def meant(wrong: str, names: Iterable[str]) -> str:
    """The names that look like a wrong one, else all: the end of a sentence."""
    from difflib import get_close_matches  # a start on which nothing is wrong needs none of it

    known = list(names)
    near = get_close_matches(wrong, known, 3, 0.7)
    return f"did you mean {' or '.join(near)}?" if near else f"there is {', '.join(known)}."
