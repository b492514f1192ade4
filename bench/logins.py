"""How long others wait for Metadata while clients log in one after another, as fast as they can.

    python -m bench.logins                          # PLAIN, SCRAM-SHA-256 and -512, and all of it over TLS
    python -m bench.logins --seconds 2
    python -m bench.logins --held                   # how long the loop is held at a time, in processor time

The broker is a process of its own, whoever logs in is another; what their client derives from a password (PBKDF2) is
derived once. Figures are worth something on a machine that does nothing else; those of `--held` on any other, too,
because what is counted is what the thread of the loop works between two looks at its sockets, and not what it waits.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import hashlib
import hmac
import multiprocessing
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from asyncio import Handle
from base64 import b64decode, b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import lru_cache, partial
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

from bench.brokers import free_port, whoever
from bench.starved import WARM_UP_S, framed, p99, waited
from odradek.net.certs import make_certificates
from odradek.testing import Cluster
from odradek.wire.messages.sasl_authenticate_request import SaslAuthenticateRequest
from odradek.wire.messages.sasl_handshake_request import SaslHandshakeRequest
from odradek.wire.registry import ApiKey

__all__ = ["LOGINS", "beside", "serving"]

USER, PASSWORD, NONCE = "alice", "alice-secret", "fyko+d2lbbFgONRv9qkxdawL"
ALGORITHMS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
LOGINS = [(mechanism, tls) for tls in (False, True) for mechanism in ("PLAIN", *ALGORITHMS)]
derived = lru_cache(hashlib.pbkdf2_hmac)


@contextmanager
def serving() -> Iterator[tuple[int, int, int]]:
    """A broker: its ports without a login, with one, and with one over TLS."""
    ports = free_port(), free_port(), free_port()
    names = ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL")
    with tempfile.TemporaryDirectory() as folder:
        made = make_certificates(Path(folder) / "certs")
        settings = {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in zip(names, ports, strict=True)),
            "sasl.enabled.mechanisms": ",".join(("PLAIN", *ALGORITHMS)),
            "odradek.sasl.users": f"{USER}:{PASSWORD}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(made.server),
        }
        command = [sys.executable, "-m", "odradek", "serve", "--topic", "t0", "--log-level", "error"]
        command += [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                process.stdout.readline()
                yield ports
            finally:
                process.kill()


def logs_in(address: tuple[str, int], mechanism: str, tls: bool, count: Synchronized[int]) -> None:
    """Connect, log in and hang up, again and again, until the process is ended."""
    context = whoever() if tls else None
    while True:
        with socket.create_connection(address) as plain:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with plain if context is None else context.wrap_socket(plain) as connection:
                log_in(connection, mechanism)
        count.value += 1


def log_in(connection: socket.socket, mechanism: str) -> None:
    """One login."""
    ask(connection, framed(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism=mechanism)))
    if mechanism == "PLAIN":
        answer = say(connection, f"\0{USER}\0{PASSWORD}")
    else:
        bare = f"n={USER},r={NONCE}"
        first = say(connection, f"n,,{bare}").partition(b"r=")[2].partition(b"\0")[0]
        answer = say(connection, final(bare, f"r={first.decode()}", ALGORITHMS[mechanism]))
    # The length, the correlation id and its tags stand before the error.
    assert answer[5:7] == b"\0\0", "the login was refused"


def final(bare: str, first: str, algorithm: str) -> str:
    """The second message of SCRAM."""
    fields = dict(part.split("=", 1) for part in first.split(","))
    salted = derived(algorithm, PASSWORD.encode(), b64decode(fields["s"]), int(fields["i"]))
    key = hmac.digest(salted, b"Client Key", algorithm)
    without = f"c=biws,r={fields['r']}"
    signature = hmac.digest(hashlib.new(algorithm, key).digest(), f"{bare},{first},{without}".encode(), algorithm)
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    return f"{without},p={b64encode(proof).decode()}"


def say(connection: socket.socket, text: str) -> bytes:
    """A step of the login, and what is answered."""
    return ask(connection, framed(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=text.encode())))


def ask(connection: socket.socket, request: bytes) -> bytes:
    """The bytes of an answer."""
    connection.sendall(request)
    answer = b""
    while len(answer) < 4 or len(answer) < 4 + int.from_bytes(answer[:4]):
        more = connection.recv(1 << 16)
        assert more, "the broker has hung up"
        answer += more
    return answer[4:]


@contextmanager
def beside(address: tuple[str, int], mechanism: str, *, tls: bool) -> Iterator[Synchronized[int]]:
    """While somebody logs in again and again; how often it has."""
    context = multiprocessing.get_context("spawn")
    count: Synchronized[int] = context.Value("i", 0)
    process = context.Process(target=logs_in, args=(address, mechanism, tls, count), daemon=True)
    process.start()
    try:
        while not count.value and process.is_alive():
            time.sleep(0.01)
        time.sleep(WARM_UP_S)
        yield count
        if not process.is_alive():
            raise RuntimeError(f"nobody can log in by {mechanism}: nothing was measured beside it")
    finally:
        process.kill()
        process.join()


async def held(seconds: float) -> None:
    """What the thread of a broker works at a time, while somebody logs in."""
    with tempfile.TemporaryDirectory() as folder:
        made = make_certificates(Path(folder) / "certs")
        config = {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
            "sasl.enabled.mechanisms": ",".join(("PLAIN", *ALGORITHMS)),
            "odradek.sasl.users": f"{USER}:{PASSWORD}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(made.server),
        }
        run, spans = Handle._run, list[float]()

        def timed(handle: Handle) -> None:
            began = time.thread_time()
            run(handle)
            spans.append((time.thread_time() - began) * 1000)

        async with Cluster(config=config, log_level="error") as cluster:
            gc.collect()
            gc.freeze()  # as `odradek serve` does
            for mechanism, tls in LOGINS:
                host, _, port = cluster.bootstrap_of("SASL_SSL" if tls else "SASL_PLAINTEXT").rpartition(":")
                with ThreadPoolExecutor(1) as worker, ExitStack() as exits:
                    begin = partial(exits.enter_context, beside((host, int(port)), mechanism, tls=tls))
                    count = await asyncio.get_running_loop().run_in_executor(worker, begin)
                    before = count.value
                    spans.clear()  # the step that told the last row is not one of a login
                    Handle._run = timed  # type: ignore[assignment, method-assign]
                    try:
                        await asyncio.sleep(seconds)
                    finally:
                        Handle._run = run  # type: ignore[method-assign]
                    name = f"{mechanism} over TLS" if tls else mechanism
                    middle = statistics.median(spans)
                    print(f"| {name} | {count.value - before} | {middle:.2f} | {p99(spans):.2f} | {max(spans):.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--held", action="store_true")
    options = parser.parse_args()
    if options.held:
        print("| one client logs in by | logins | the loop is held for, ms p50 | p99 | worst |")
        print("| --- | ---: | ---: | ---: | ---: |")
        asyncio.run(held(options.seconds))
        return
    print("| one client logs in by | logins/s | another's Metadata, ms p50 | p99 | worst |")
    print("| --- | ---: | ---: | ---: | ---: |")
    with serving() as (port, sasl, over_tls):
        show("nothing", 0, waited(("127.0.0.1", port), seconds=options.seconds))
        for mechanism, tls in LOGINS:
            with beside(("127.0.0.1", over_tls if tls else sasl), mechanism, tls=tls) as count:
                before, began = count.value, time.perf_counter()
                samples = waited(("127.0.0.1", port), seconds=options.seconds)
                rate = (count.value - before) / (time.perf_counter() - began)
                show(f"{mechanism} over TLS" if tls else mechanism, rate, samples)


def show(what: str, rate: float, samples: list[float]) -> None:
    """A row of the table."""
    middle = statistics.median(samples)
    print(f"| {what} | {rate:.0f} | {middle:.2f} | {p99(samples):.2f} | {max(samples):.2f} |", flush=True)


if __name__ == "__main__":
    main()
