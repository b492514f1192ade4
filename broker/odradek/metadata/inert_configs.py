"""Kafka's checks of broker keys without effect, as recorded: values that Kafka refuses are refused here too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from odradek.config.inert_defaults import INERT_DEFAULTS
from odradek.config.keys import BadValue, Kind, parse_value, whole_number
from odradek.config.table import Config

__all__ = ["invalid_inert_configs"]

CLEANER_THREADS, CLEANER_BYTES = "log.cleaner.threads", "log.cleaner.dedupe.buffer.size"
BYTES_OF_A_CLEANER = 1024 * 1024
POOLS = frozenset(
    {
        "background.threads",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
    }
)
"""Thread counts of a running broker: at most twice, and at least half of the present number."""
NUMBERS = frozenset({Kind.INT, Kind.LONG, Kind.DOUBLE})


def invalid_inert_configs(values: Mapping[str, str], touched: Sequence[str], config: Config) -> str | None:
    """The reason why a broker that runs with `config` cannot have these values, or None."""
    inert = [name for name in touched if name in INERT_DEFAULTS]
    return next(_complaints(values, inert, config), None) if inert else None


def _complaints(values: Mapping[str, str], inert: Sequence[str], config: Config) -> Iterator[str]:
    for name in inert:
        if INERT_DEFAULTS[name].kind in NUMBERS:
            try:
                parse_value(name, INERT_DEFAULTS[name].kind, values[name].strip())
            except BadValue as error:
                yield str(error)
                return
    for name in inert:
        if name in POOLS and int(values[name]) < 1:
            yield f"Invalid value {int(values[name])} for configuration {name}: Value must be at least 1"
    if CLEANER_THREADS in inert or CLEANER_BYTES in inert:
        yield from _of_cleaner(values, config)
    for name in inert:
        if name in POOLS:
            yield from _of_pool(name, int(values[name]), _now(name, config))


def _of_cleaner(values: Mapping[str, str], config: Config) -> Iterator[str]:
    now = _now(CLEANER_THREADS, config)
    threads = _whole(values.get(CLEANER_THREADS), now)
    size = _whole(values.get(CLEANER_BYTES), _now(CLEANER_BYTES, config))
    if threads == 0:
        yield "/ by zero"
    elif size // threads <= BYTES_OF_A_CLEANER:
        yield f"requirement failed: {CLEANER_BYTES} must be at least 1MB per cleaner thread."
    if threads > 2 * now:
        yield _unfit(f"Log cleaner threads cannot be increased to more than double the current value {now}")
    if threads < now // 2:
        yield _unfit(f"Log cleaner threads cannot be reduced to less than half the current value {now}")


def _of_pool(name: str, threads: int, now: int) -> Iterator[str]:
    failed = f"Dynamic thread count update validation failed for {name}={threads}, value should"
    if threads > 2 * now:
        yield _unfit(f"{failed} not be greater than double the current value {now}")
    if threads < now / 2:
        yield _unfit(f"{failed} be at least half the current value {now}")


def _unfit(complaint: str) -> str:
    return (
        f"Invalid value org.apache.kafka.common.config.ConfigException: {complaint} "
        "for configuration Invalid dynamic configuration"
    )


def _now(name: str, config: Config) -> int:
    default = INERT_DEFAULTS[name].default
    assert default is not None, "each of these has a default"
    told = next((texts[name] for _, texts in config.layers if name in texts), None)
    return _whole(told, int(default))


def _whole(text: str | None, otherwise: int) -> int:
    """A number; the stored text may not be one."""
    number = None if text is None else whole_number(text.strip(), 63)
    return otherwise if number is None else number
