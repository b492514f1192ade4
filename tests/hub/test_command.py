"""`odradek hub` and `odradek serve --control` as processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from urllib.request import urlopen

import pytest
from tests.hub.helpers import Till, refused

from odradek.control.client import HubClient

LIMIT_S = 60
pytestmark = pytest.mark.slow


@contextmanager
def running(*words: str, env: Mapping[str, str] | None = None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A command that serves, and the line with which it begins; it ends with its standard input."""
    command = [sys.executable, "-m", "odradek", *words, "--until-stdin-ends"]
    with subprocess.Popen(
        command,
        env={**os.environ, **(env or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        limit = Timer(LIMIT_S, process.kill)  # a line that never comes fails a test instead of holding it
        limit.start()
        yield process, process.stdout.readline().strip()
        process.stdin.close()
        process.wait(30)
        limit.cancel()


def test_a_hub_says_where_it_is_and_ends_in_order(tmp_path: Path) -> None:
    file = tmp_path / "url"
    with running("hub", "--listen", "127.0.0.1:0", "--url-file", str(file)) as (process, line):
        url = line.removeprefix("odradek hub ready url=")
        assert url == file.read_text().strip()
        bootstrap = HubClient(url).post("clusters", body={"topics": ["t"]})["bootstrap"]
        till = Till(bootstrap)
        assert 0 == till.add()
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.close()
        assert "" == process.stderr.read()
    assert 0 == process.returncode
    till.close()


def test_a_hub_ends_while_somebody_follows_and_waits() -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor() as beside:
        with running("hub", "--listen", "127.0.0.1:0") as (process, line):
            hub = HubClient(line.removeprefix("odradek hub ready url="))
            cluster = hub.post("clusters")["id"]
            following = beside.submit(lambda: [kind for kind, _ in hub.events(cluster)])
            waiting = beside.submit(refused, lambda: hub.post("clusters", cluster, "wait", body={"group": {"id": "g"}}))
            while not hub.get("clusters", cluster, "events")["events"]:
                Till(hub.get("clusters", cluster)["bootstrap"]).close()
        assert "end" == following.result(10)[-1]
        assert 404 == waiting.result(10)[0]
    assert 0 == process.returncode


def test_serve_is_driven_over_http(tmp_path: Path) -> None:
    """Its rules count, a reset keeps the address, and its own events go on."""
    events = tmp_path / "events.jsonl"
    arguments = ["--port", "0", "--topic", "t", "--control", "0", "--json", "--events", str(events)]
    with running("serve", *arguments) as (process, line):
        bootstrap = line.split("bootstrap=")[1]
        assert process.stderr is not None
        said = ""
        while "control_served" not in said:
            said = process.stderr.readline()
        hub = HubClient(said.split('"url": "')[1].split('"')[0])
        assert [("default", bootstrap)] == [(each["id"], each["bootstrap"]) for each in hub.get("clusters")]
        rule = {"match": {"api": "END_TXN"}, "act": {"error": "COORDINATOR_NOT_AVAILABLE"}, "expect": {"hits": 1}}
        hub.post("clusters", "default", "rules", body=rule)
        till = Till(bootstrap)
        assert (0, 15) == (till.add(), till.end())
        assert [] == hub.post("clusters", "default", "verify")["unmet"]
        till.close()
        assert bootstrap == hub.post("clusters", "default", "reset")["bootstrap"]
        Till(bootstrap, "till-2").close()
        hub.post("clusters", "default", "rules", body=rule)
    assert 3 == process.returncode
    assert "till-1" in events.read_text()
    assert "till-2" in events.read_text()


@pytest.mark.parametrize("level", ["warning", "info"])
def test_serve_tells_where_its_hub_is_whatever_it_logs(level: str) -> None:
    with running("serve", "--port", "0", "--control", "0", "--log-level", level) as (process, line):
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said.startswith("odradek hub ready url=http://127.0.0.1:")
        [cluster] = HubClient(said.strip().partition("url=")[2]).get("clusters")
        assert line.endswith(f"odradek ready bootstrap={cluster['bootstrap']}")


def test_serve_tells_where_its_metrics_are_whatever_it_logs() -> None:
    words = ["serve", "--port", "0", "--control", "0", "--metrics-port", "0", "--log-level", "warning"]
    with running(*words) as (process, line):
        assert process.stdout is not None
        said = [line, process.stdout.readline(), process.stdout.readline()]
        starts = ["odradek ready bootstrap=", "odradek hub ready url=", "odradek metrics ready url=http://127.0.0.1:"]
        assert [True] * 3 == [each.startswith(start) for each, start in zip(said, starts, strict=True)], said
        with urlopen(said[-1].strip().partition("url=")[2], timeout=10) as page:
            assert b"odradek_requests_total" in page.read()


def test_the_address_is_said_in_the_words_of_serve() -> None:
    """`--host` and `--port`; scripts that say it in one word go on."""
    with running("hub", "--host", "127.0.0.1", "--port", "0") as (_, line):
        assert line.startswith("odradek hub ready url=http://127.0.0.1:")
    with running("hub", "--port", "0") as (_, line):
        assert line.startswith("odradek hub ready url=http://127.0.0.1:")
    command = [sys.executable, "-m", "odradek", "hub"]
    both = subprocess.run(
        [*command, "--port", "0", "--listen", "0"], capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert (2, "") == (both.returncode, both.stdout)
    assert both.stderr.startswith("odradek: --host and --port say where the hub listens, or --listen does")
    told = subprocess.run([*command, "--help"], capture_output=True, text=True, check=False, timeout=LIMIT_S).stdout
    assert "--port" in told
    assert "--listen" not in told


def test_a_file_is_no_folder_for_recordings_and_nothing_is_no_directory(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    wrong = {
        ("hub", "--port", "0", "--record", str(file)): f"odradek: Recordings are files in a folder, and {file} is",
        ("serve", "--port", "0", "--data-dir", ""): "odradek: --data-dir: a path is needed, and this one is empty",
    }
    for words, sentence in wrong.items():
        command = [sys.executable, "-m", "odradek", *words, "--until-stdin-ends"]
        done = subprocess.run(
            command, capture_output=True, input="", text=True, check=False, cwd=tmp_path, timeout=LIMIT_S
        )
        assert (2, "") == (done.returncode, done.stdout)
        assert done.stderr.startswith(sentence)
    assert [file] == list(tmp_path.iterdir())


def test_a_port_alone_is_one_of_the_host_that_the_environment_names() -> None:
    """As in the image, where whatever command is given is reached from outside; and so it needs a token."""
    everywhere = {"ODRADEK_HOST": "0.0.0.0", "ODRADEK_HUB_TOKEN": "mine"}
    with running("hub", "--listen", "0", env=everywhere) as (_, line):
        # Who listens on one address of the loopback device alone is not reached by another one.
        url = line.removeprefix("odradek hub ready url=").replace("localhost", "127.0.0.2")
        assert [] == HubClient(url, token="mine").get("clusters")
    with running("hub", "--listen", "127.0.0.1:0", env=everywhere) as (_, line):
        assert line.startswith("odradek hub ready url=http://127.0.0.1:")
    for words in (("hub", "--listen", "0"), ("serve", "--port", "0", "--control", "0")):
        done = subprocess.run(
            [sys.executable, "-m", "odradek", *words, "--until-stdin-ends"],
            env={**os.environ, "ODRADEK_HOST": "0.0.0.0", "ODRADEK_HUB_TOKEN": ""},
            input="",
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (2, "") == (done.returncode, done.stdout)
        assert done.stderr.endswith("beyond loopback a hub needs a token. Set ODRADEK_HUB_TOKEN.\n")


def test_a_second_hub_ends_with_a_sentence() -> None:
    with running("hub", "--listen", "127.0.0.1:0") as (_, line):
        port = line.rpartition(":")[2]
        command = [sys.executable, "-m", "odradek", "hub", "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (2, "") == (done.returncode, done.stdout)
    said = f"odradek: A hub listens on 127.0.0.1:{port} already: use that one, or give another --port.\n"
    assert said == done.stderr
