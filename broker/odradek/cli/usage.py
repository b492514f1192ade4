"""What whoever starts the product is told: that it serves, or why it cannot."""

__all__ = ["HOST_VARIABLE", "METRICS_READY", "READY", "Unmet", "UsageError"]

READY = "odradek ready bootstrap="
"""The start of the first line on standard output; `HOST:PORT` of every broker follows, separated by commas."""
METRICS_READY = "odradek metrics ready url="
"""The start of a later line, with `--metrics-port`; the URL of the page follows."""


HOST_VARIABLE = "ODRADEK_HOST"
"""Where brokers and hubs listen that are told no host: an image says it once, for whatever command it is given."""


class UsageError(Exception):
    """What was asked for cannot be done; the text is one clear sentence, and the command ends with exit code 2."""


class Unmet(UsageError):
    """Rules have not seen what they expect; the command ends with exit code 3."""
