"""A driver as a process: it gets one request at a time, has a deadline for each answer, and is ended with its children.

Whatever a driver does wrong is a `DriverFault`; the process is of no use after one.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from enum import Enum

import anyio
import msgspec
from anyio.abc import ByteReceiveStream, Process

from odradek.cli.usage import UsageError
from odradek.conform.protocol import Answer, Driver, Hello, Request, result_of, verb_of

__all__ = ["DriverFault", "DriverProcess", "Limits", "Trouble", "started"]

SHOWN_MAX = 200
"""Characters of a wrong line that a sentence repeats."""
_ENCODER = msgspec.json.Encoder()
_ANSWER = msgspec.json.Decoder(Answer)
_HELLO = msgspec.json.Decoder(Driver)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits for one driver process."""

    hello_ms: int = 20_000
    """Until the first line; a virtual machine may have to start, and processors may be busy."""
    answer_ms: int = 30_000
    """For an answer to a request that says no `timeout_ms`."""
    grace_ms: int = 5_000
    """Beyond the `timeout_ms` of a request: the driver has to say TIMED_OUT by then."""
    end_ms: int = 2_000
    """Between the end of the driver's standard input and SIGKILL."""
    line_bytes_max: int = 1 << 20
    stderr_bytes_max: int = 64 << 20
    stderr_kept_bytes: int = 16 << 10


class Trouble(Enum):
    """How a driver breaks the protocol."""

    MISSING = "missing"
    DIED = "died"
    HUNG = "hung"
    FLOODED = "flooded"
    LIED = "lied"


class DriverFault(Exception):
    """The driver, not its library, has failed; the text is one sentence."""

    def __init__(self, trouble: Trouble, sentence: str) -> None:
        super().__init__(sentence)
        self.trouble = trouble


class DriverProcess:
    """A driver that runs; made by `started`."""

    def __init__(self, process: Process, limits: Limits, heard: Callable[[str, bytes], None]) -> None:
        self._process = process
        self._limits = limits
        self._heard = heard
        self._held = b""
        self._stderr = bytearray()
        self._stderr_bytes = 0
        self._next_id = 1
        self.hello: Hello
        """The first line of the driver."""

    @property
    def errors(self) -> str:
        """The end of its standard error."""
        return self._stderr.decode("utf-8", "replace")

    def next_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    async def greet(self) -> None:
        """Read the first line. Raises `DriverFault`."""
        line = await self._line(self._limits.hello_ms, "hello (its first line)")
        try:
            self.hello = _HELLO.decode(line).hello
        except msgspec.MsgspecError as error:
            raise DriverFault(Trouble.LIED, f"The driver's first line is no hello ({error}): {_shown(line)}") from None

    async def ask(self, request: Request) -> Answer:
        """Send a request and read its answer. Raises `DriverFault`."""
        limits, verb = self._limits, verb_of(request)
        wait_ms = limits.answer_ms if request.timeout_ms is None else request.timeout_ms + limits.grace_ms
        asked = f"answer to {verb} of {request.client} (id {request.id})"
        await self._send(_ENCODER.encode(request), wait_ms, asked)
        line = await self._line(wait_ms, asked)
        try:
            answer = _ANSWER.decode(line)
            if answer.done is not None:
                result_of(request, answer.done)
        except msgspec.MsgspecError as error:
            raise DriverFault(Trouble.LIED, f"Not the {asked} ({error}): {_shown(line)}") from None
        if answer.id != request.id:
            raise DriverFault(Trouble.LIED, f"Not the {asked}, but one to id {answer.id}: {_shown(line)}")
        return answer

    async def read_errors(self) -> None:
        """Read its standard error until it ends; the newest part is kept."""
        assert self._process.stderr is not None
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            async for chunk in self._process.stderr:
                self._heard("2", chunk)
                self._stderr += chunk
                del self._stderr[: -self._limits.stderr_kept_bytes]
                self._stderr_bytes += len(chunk)
                if self._stderr_bytes > self._limits.stderr_bytes_max:
                    _kill(self._process)

    async def _send(self, line: bytes, wait_ms: int, asked: str) -> None:
        assert self._process.stdin is not None
        self._heard(">", line)
        try:
            with anyio.fail_after(wait_ms / 1000):
                await self._process.stdin.send(line + b"\n")
        except TimeoutError:
            raise DriverFault(Trouble.HUNG, f"The driver does not read its standard input: no {asked}.") from None
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            raise await self._ended(asked) from None

    async def _line(self, wait_ms: int, asked: str) -> bytes:
        assert self._process.stdout is not None
        try:
            with anyio.fail_after(wait_ms / 1000):
                return await self._next_line(self._process.stdout)
        except TimeoutError:
            raise DriverFault(Trouble.HUNG, f"No {asked} in {wait_ms / 1000:g} s.") from None
        except (anyio.EndOfStream, anyio.BrokenResourceError, OSError):
            raise await self._ended(asked) from None

    async def _next_line(self, stream: ByteReceiveStream) -> bytes:
        while b"\n" not in self._held:
            if len(self._held) > self._limits.line_bytes_max:
                most = self._limits.line_bytes_max
                raise DriverFault(Trouble.FLOODED, f"A line of the driver is longer than {most} bytes.")
            self._held += await stream.receive()
        line, _, self._held = self._held.partition(b"\n")
        self._heard("<", line)
        return line

    async def _ended(self, asked: str) -> DriverFault:
        """The failure of a driver whose standard output has ended."""
        if self._stderr_bytes > self._limits.stderr_bytes_max:
            most = self._limits.stderr_bytes_max
            return DriverFault(Trouble.FLOODED, f"The driver has written more than {most} bytes to standard error.")
        with anyio.move_on_after(self._limits.end_ms / 1000):
            await self._process.wait()
        code = self._process.returncode
        how = "closed its standard output" if code is None else f"ended with {_code(code)}"
        return DriverFault(Trouble.DIED, f"The driver {how} before the {asked}.")


@asynccontextmanager
async def started(
    command: Sequence[str],
    *,
    limits: Limits = Limits(),  # noqa: B008
    heard: Callable[[str, bytes], None] = lambda stream, line: None,
) -> AsyncIterator[DriverProcess]:
    """Start a driver and read its hello; it ends with the block, and so do its children.

    `heard` gets every line: `>` for a request, `<` for an answer, `2` for a part of standard error.
    Raises `DriverFault`; `UsageError` where there is no such program.
    """
    try:
        process = await anyio.open_process(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise UsageError(f"The driver cannot be started: {command[0]}: {error.strerror}.") from None
    driver = DriverProcess(process, limits, heard)
    failed: Exception | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(driver.read_errors)
        try:
            await driver.greet()
            yield driver
        except Exception as error:  # a task group would wrap it
            failed = error
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process, limits)
            tasks.cancel_scope.cancel()
    if failed is not None:
        raise failed


async def _end(process: Process, limits: Limits) -> None:
    """Give the driver the chance to go by itself, then end its whole session."""
    assert process.stdin is not None
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        await process.stdin.aclose()
    if process.returncode is None:
        with anyio.move_on_after(limits.end_ms / 1000):
            await process.wait()
    _kill(process)
    assert process.stdout is not None
    with anyio.move_on_after(limits.end_ms / 1000), suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        await process.wait()
        # The pipe is closed when it has been read to its end.
        async for _ in process.stdout:
            pass
    await process.aclose()


def _kill(process: Process) -> None:
    """End the driver and its child processes; it runs in a session of its own."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _code(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _shown(line: bytes) -> str:
    text = line.decode("utf-8", "replace")
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"
