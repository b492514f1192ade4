"""Numbers of things, as people read them."""

__all__ = ["counted"]


def counted(number: int, one: str, many: str = "") -> str:
    """`1 broker`, `2 brokers`; `many` is the plural where it is not `one` with an s: `2 crashes`."""
    return f"{number} {one if number == 1 else many or one + 's'}"
