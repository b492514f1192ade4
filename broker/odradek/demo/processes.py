"""The processes of the demo, their commands and their output."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

import anyio
from anyio.abc import ByteReceiveStream, Process

from odradek.cli.parent import FLAG

__all__ = ["command", "lines", "run_until", "spawned"]

GRACE_S = 10.0


def command(*arguments: str | float | Path) -> list[str]:
    """A command line of this installation's `odradek`."""
    return [sys.executable, "-m", "odradek", *map(str, arguments)]


@asynccontextmanager
async def spawned(arguments: Sequence[str], *, stderr: int | IO[bytes]) -> AsyncIterator[Process]:
    """A process, ended with SIGTERM, and with SIGKILL if that does not help.

    It has a session of its own, so that Ctrl-C reaches the director alone; its standard input is a pipe that ends with
    the director, so that it does not outlive one that was killed.
    """
    process = await anyio.open_process(
        [*arguments, FLAG], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True
    )
    async with process:
        try:
            yield process
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)


async def _end(process: Process) -> None:
    if process.returncode is None:
        process.terminate()
        with anyio.move_on_after(GRACE_S):
            await process.wait()
    if process.returncode is None:
        process.kill()


async def lines(stream: ByteReceiveStream | None) -> AsyncIterator[bytes]:
    """Whole lines; a line that a crash has cut off is dropped."""
    assert stream is not None
    held = b""
    async for chunk in stream:
        *whole, held = (held + chunk).split(b"\n")
        for line in whole:
            yield line


async def run_until(stop: anyio.Event, arguments: Sequence[str], hear: Callable[[bytes], None], log: Path) -> int:
    """Run a process, pass its lines to `hear`, and end it at `stop`; returns its exit code."""

    async def ask_to_end(process: Process) -> None:
        await stop.wait()
        if process.returncode is None:
            process.terminate()

    with log.open("ab") as errors:
        async with spawned(arguments, stderr=errors) as process, anyio.create_task_group() as tasks:
            tasks.start_soon(ask_to_end, process)
            async for line in lines(process.stdout):
                hear(line)
            code = await process.wait()
            tasks.cancel_scope.cancel()
    return code
