"""A stand-in for a Docker engine: as much of its HTTP API as Testcontainers needs to run the image `odradek`.

A container is the command of this checkout as a process, with the environment of the image; its ports are mapped by
forwarders. A client that does not go by these is lost: until it is advertised another address, the broker tells one
that no client can resolve.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from tests.packaging.forwarder import Forwarder
from tests.packaging.processes import BROKER, Places

__all__ = ["INSIDE", "Container", "StandIn"]

ROOT = Path(__file__).parent.parent.parent
INSIDE = "container.invalid"
"""The host that a client is told that is not advertised another one."""
WHEN = "2026-01-01T00:00:00.000000000Z"
STDOUT, STDERR = 1, 2
STOPPED_S = 30
API = {"ApiVersion": "1.44", "MinAPIVersion": "1.24", "Version": "25.0.0", "Os": "linux", "Arch": "amd64"}
INFO = {
    "ServerVersion": "25.0.0",
    "OperatingSystem": "a stand-in",
    "OSType": "linux",
    "MemTotal": 1 << 32,
    "Labels": [],
}
BRIDGE = {"Name": "bridge", "Id": "bridge", "Driver": "bridge", "Scope": "local", "IPAM": {"Config": []}}


class Container:
    """A container; `words` is its command."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.id = uuid.uuid4().hex * 2
        self.asked = asked
        self.words: list[str] = asked.get("Cmd") or []
        self.mapped: dict[str, Forwarder] = {}
        self.connections: dict[str, int] = {}
        """Of each of its ports, when it has ended."""
        self._said = bytearray()
        self._changed = threading.Condition()
        self._process: subprocess.Popen[bytes] | None = None
        self._listening: list[threading.Thread] = []

    def start(self) -> None:
        """Run its command, and map the ports that it exposes."""
        places = Places()
        words = [*places.each(self.words), "--advertised-host", INSIDE]
        words += [] if "--port" in words else ["--port", str(places.ports[BROKER])]
        said = dict(each.split("=", 1) for each in self.asked.get("Env") or [])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "odradek", *words],
            env={**os.environ, "ODRADEK_HOST": "0.0.0.0", "PYTHONPATH": str(ROOT / "broker"), **said},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        pipes = {STDOUT: self._process.stdout, STDERR: self._process.stderr}
        self._listening = [threading.Thread(target=self._listen, args=each, daemon=True) for each in pipes.items()]
        for thread in self._listening:
            thread.start()
        for name in self.asked.get("ExposedPorts") or {}:
            port = int(name.partition("/")[0])
            self.mapped[name] = Forwarder(places.ports[port])

    def _listen(self, number: int, pipe: Any) -> None:
        """Keep what it says as the engine frames it: the stream, and the length of what follows."""
        with pipe:
            for line in pipe:
                with self._changed:
                    self._said += bytes((number, 0, 0, 0)) + len(line).to_bytes(4) + line
                    self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def log(self, tell: Callable[[bytes], None], *, follow: bool) -> None:
        """Tell what it has said, and what it says until it ends."""
        told = 0
        while True:
            with self._changed:
                while follow and told == len(self._said) and self.runs:
                    self._changed.wait(0.2)
                said = bytes(self._said[told:])
            told += len(said)
            if said:
                tell(said)
            elif not (follow and self.runs):
                return

    @property
    def runs(self) -> bool:
        """Whether its process does."""
        return self._process is not None and self._process.poll() is None

    def end(self) -> None:
        """End its process, and close its ports."""
        for name, each in self.mapped.items():
            self.connections[name] = each.connections
            each.close()
        self.mapped = {}
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(STOPPED_S)
        for thread in self._listening:
            thread.join(STOPPED_S)

    @property
    def shown(self) -> dict[str, Any]:
        """What `docker inspect` says of it."""
        ports = {name: [{"HostIp": "0.0.0.0", "HostPort": str(each.port)}] for name, each in self.mapped.items()}
        status = "running" if self.runs else "exited" if self._process else "created"
        state = {"Status": status, "Running": self.runs, "ExitCode": 0, "StartedAt": WHEN, "FinishedAt": WHEN}
        addresses = {"IPAddress": "172.17.0.2", "Gateway": "172.17.0.1", "NetworkID": "bridge"}
        return {
            "Id": self.id,
            "Name": f"/{self.id[:12]}",
            "Created": WHEN,
            "Image": "sha256:0",
            "State": state,
            "Config": {"Hostname": self.id[:12], "Tty": False, "Labels": {}, **self.asked},
            "HostConfig": {"NetworkMode": "bridge", **(self.asked.get("HostConfig") or {})},
            "NetworkSettings": {**addresses, "Ports": ports, "Networks": {"bridge": addresses}},
        }


class StandIn:
    """The engine, on a free port of loopback; its containers end with it."""

    def __init__(self) -> None:
        self.containers: dict[str, Container] = {}
        self.every: list[Container] = []
        """All that there were, the removed ones, too."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"engine": self}))
        self._server.daemon_threads = True

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        for each in self.containers.values():
            each.end()

    @property
    def env(self) -> dict[str, str]:
        """What has Testcontainers use it; nobody has to clear up after who uses it."""
        at = f"tcp://127.0.0.1:{self._server.server_port}"
        # Also where these tests run in a container themselves.
        here = {"TESTCONTAINERS_HOST_OVERRIDE": "127.0.0.1", "TESTCONTAINERS_CONNECTION_MODE": "docker_host"}
        return {"DOCKER_HOST": at, "TESTCONTAINERS_RYUK_DISABLED": "true", **here}


class _Handler(BaseHTTPRequestHandler):
    engine: StandIn
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._serve()

    do_HEAD = do_POST = do_DELETE = do_GET  # noqa: N815 - names of the standard library

    def log_message(self, *_: object) -> None:
        """Nobody wants to read it."""

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        parts = urlsplit(self.path)
        path = re.sub(r"^/v\d+\.\d+(?=/)", "", parts.path)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        for (method, pattern), act in CALLS.items():
            found = re.fullmatch(pattern, path)
            if found and (self.command == method or (self.command == "HEAD" and method == "GET")):
                act(self, *found.groups(), body=body, query=query)
                return
        self.answer({"message": f"the stand-in has no {self.command} {path}"}, 404)

    def answer(self, value: object, status: int = 200) -> None:
        """JSON, or nothing for None."""
        raw = b"" if value is None else value.encode() if isinstance(value, str) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Api-Version", API["ApiVersion"])
        self.send_header("Ostype", "linux")
        self.send_header("Content-Type", "text/plain" if isinstance(value, str) else "application/json")
        if status != 204:
            self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)

    def _container(self, name: str) -> Container | None:
        found = next((each for each in self.engine.containers.values() if each.id.startswith(name)), None)
        if found is None:
            self.answer({"message": f"No such container: {name}"}, 404)
        return found

    def create(self, *, body: bytes, query: dict[str, str]) -> None:
        """POST /containers/create."""
        container = Container(json.loads(body))
        self.engine.containers[container.id] = container
        self.engine.every.append(container)
        self.answer({"Id": container.id, "Warnings": []}, 201)

    def start(self, name: str, *, body: bytes, query: dict[str, str]) -> None:
        """POST /containers/ID/start."""
        if container := self._container(name):
            container.start()
            self.answer(None, 204)

    def inspect(self, name: str, *, body: bytes, query: dict[str, str]) -> None:
        """GET /containers/ID/json."""
        if container := self._container(name):
            self.answer(container.shown)

    def logs(self, name: str, *, body: bytes, query: dict[str, str]) -> None:
        """GET /containers/ID/logs."""
        if container := self._container(name):
            self.send_response(200)
            self.send_header("Content-Type", "application/vnd.docker.multiplexed-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            try:
                container.log(self._chunk, follow=query.get("follow", "0").lower() in ("1", "true"))
                self._chunk(b"")
            except OSError:  # who followed has gone
                self.close_connection = True

    def _chunk(self, said: bytes) -> None:
        self.wfile.write(f"{len(said):x}\r\n".encode() + said + b"\r\n")
        self.wfile.flush()

    def stop(self, name: str, *, body: bytes, query: dict[str, str]) -> None:
        """POST /containers/ID/stop and /kill."""
        if container := self._container(name):
            container.end()
            self.answer(None, 204)

    def remove(self, name: str, *, body: bytes, query: dict[str, str]) -> None:
        """DELETE /containers/ID."""
        if container := self._container(name):
            container.end()
            del self.engine.containers[container.id]
            self.answer(None, 204)

    def image(self, name: str, *, body: bytes, query: dict[str, str]) -> None:
        """GET /images/NAME/json: there is one image."""
        if name.removesuffix(":latest").rpartition("/")[2] != "odradek":
            self.answer({"message": f"No such image: {name}"}, 404)
            return
        self.answer({"Id": "sha256:0", "RepoTags": ["odradek:latest"], "Created": WHEN, "Config": {"Labels": {}}, **OS})


OS = {"Os": "linux", "Architecture": "amd64"}


def _always(value: object) -> Callable[..., None]:
    def act(handler: _Handler, *_: str, body: bytes, query: dict[str, str]) -> None:
        handler.answer(value)

    return act


CALLS: dict[tuple[str, str], Callable[..., None]] = {
    ("GET", r"/_ping"): _always("OK"),
    ("GET", r"/version"): _always(API),
    ("GET", r"/info"): _always(INFO),
    ("GET", r"/networks"): _always([BRIDGE]),
    ("GET", r"/networks/bridge"): _always(BRIDGE),
    ("GET", r"/images/json"): _always([{"Id": "sha256:0", "RepoTags": ["odradek:latest"]}]),
    ("GET", r"/images/(.+)/json"): _Handler.image,
    ("GET", r"/containers/json"): _always([]),
    ("POST", r"/containers/create"): _Handler.create,
    ("POST", r"/containers/(\w+)/start"): _Handler.start,
    ("GET", r"/containers/(\w+)/json"): _Handler.inspect,
    ("GET", r"/containers/(\w+)/logs"): _Handler.logs,
    ("POST", r"/containers/(\w+)/(?:stop|kill)"): _Handler.stop,
    ("DELETE", r"/containers/(\w+)"): _Handler.remove,
}
