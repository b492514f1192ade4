"""`odradek health`: whether the brokers answer, for health checks of containers and waiting CI scripts."""

from __future__ import annotations

import time

from odradek.cli.usage import UsageError
from odradek.net.client import BlockingClient, split_address
from odradek.wire.errors import DecodeError, ErrorCode
from odradek.wire.messages.api_versions_request import ApiVersionsRequest

__all__ = ["check_health"]

PAUSE_S = 0.1
VERSION = 0  # every broker since 0.10 answers this version


def check_health(bootstrap: str, *, wait_s: float, timeout_s: float) -> list[str]:
    """One sentence for each broker of `bootstrap` that does not answer ApiVersions; none if all do.

    Retries for `wait_s` seconds. Raises `UsageError` for a text that is not a list of addresses.
    """
    addresses = [address for address in bootstrap.split(",") if address]
    try:
        if not addresses:
            raise ValueError
        for address in addresses:
            split_address(address)
    except ValueError:
        raise UsageError(f"--bootstrap takes HOST:PORT, several separated by commas, not {bootstrap}.") from None
    end = time.monotonic() + wait_s
    while True:
        complaints = [said for address in addresses if (said := _complaint(address, timeout_s)) is not None]
        if not complaints or time.monotonic() >= end:
            return complaints
        time.sleep(PAUSE_S)


def _complaint(address: str, timeout_s: float) -> str | None:
    try:
        with BlockingClient(address, client_id="health", timeout_s=timeout_s) as client:
            error = ErrorCode(client.ask(ApiVersionsRequest(), VERSION).error_code)
    except TimeoutError:
        return f"{address} does not answer within {timeout_s:g} s"
    except (OSError, DecodeError, ValueError) as failure:
        return f"{address} does not answer: {failure}"
    return None if error is ErrorCode.NONE else f"{address} answers {error.name}"
