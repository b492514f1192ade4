"""What whoever starts the product is told: that it serves, or why it cannot."""

__all__ = ["READY", "Unmet", "UsageError"]

READY = "odradek ready bootstrap="
"""The start of the one line on standard output; `HOST:PORT` of every broker follows, separated by commas."""


class UsageError(Exception):
    """What was asked for cannot be done; the text is one clear sentence, and the command ends with exit code 2."""


class Unmet(UsageError):
    """Rules have not seen what they expect; the command ends with exit code 3."""
