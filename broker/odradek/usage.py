"""The error of whoever starts the product wrongly."""

__all__ = ["UsageError"]


class UsageError(Exception):
    """What was asked for cannot be done; the text is one clear sentence, and the command ends with exit code 2."""
