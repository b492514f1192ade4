"""Messages for the person at the terminal: the ready lines, and the reason when a command fails."""

__all__ = ["HOST_VARIABLE", "METRICS_READY", "READY", "Unmet", "UsageError"]

READY = "odradek ready bootstrap="
"""The beginning of the first line on standard output; `HOST:PORT` of every broker follows, separated by commas."""
METRICS_READY = "odradek metrics ready url="
"""The beginning of a later line, with `--metrics-port`; the URL of the metrics follows."""


HOST_VARIABLE = "ODRADEK_HOST"
"""The environment variable with the default host of listeners: an image sets it once for all commands."""


class UsageError(Exception):
    """The command cannot do what the user wants; the text is one clear sentence, and the exit code is 2."""


class Unmet(UsageError):
    """Rules did not see the requests that they expect; the exit code is 3."""
