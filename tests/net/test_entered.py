"""A cluster that is never left, and one that a forked process inherits: neither keeps Python from ending."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TIMEOUT_S = 60
NEVER_LEFT = "RuntimeWarning: The Cluster that was entered here was never left; it has ended with the interpreter."
FORKED = "This cluster runs in the process that this one was forked from"
IMPORTS = "import contextlib, os, socket, sys, threading\nfrom odradek.testing import Cluster, rule\n"

NEVER: dict[str, str] = {
    "alone": "",
    "with a client": "at = cluster.bootstrap.split(':')\nclient = socket.create_connection((at[0], int(at[1])))\n",
    "with a rule that has seen nothing": "cluster.add_rule(rule('PRODUCE', hold=True, expect=1))\n",
    "with a wait in another thread": (
        "def wait():\n"
        "    with contextlib.suppress(RuntimeError):\n"
        "        cluster.wait(transaction={'id': 'x', 'state': 'Empty'}, timeout_s=600)\n"
        "threading.Thread(target=wait, daemon=True).start()\n"
        "cluster.wait_for(lambda: cluster._running.changes.watcher)\n"
    ),
    "with another cluster that was left": "with Cluster():\n    pass\n",
    "after a fork": "if not os.fork():\n    sys.exit(0)\nassert os.wait()[1] == 0\n",
}


def run(program: str) -> subprocess.CompletedProcess[str]:
    """What a program of Python does, which has to end.

    Python from 3.12 on warns of each fork of a process with threads.
    """
    return subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", IMPORTS + program],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def warnings_of(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Without the lines of source that Python from 3.13 on shows below each."""
    return [line for line in done.stderr.splitlines() if "Warning" in line]


@pytest.mark.parametrize("more", NEVER)
def test_a_cluster_that_is_never_left_ends_with_python_and_one_warning(more: str) -> None:
    done = run(f"cluster = Cluster(topics=['t'])\ncluster.__enter__()\n{NEVER[more]}")
    line = 1 + len(IMPORTS.splitlines()) + 1
    assert 0 == done.returncode, done.stderr
    assert [f"<string>:{line}: {NEVER_LEFT}"] == warnings_of(done)
    assert "Traceback" not in done.stderr


def test_each_of_several_is_told_of() -> None:
    done = run("first = Cluster().__enter__()\nsecond = Cluster().__enter__()\n")
    assert 0 == done.returncode
    assert [f"<string>:{line}: {NEVER_LEFT}" for line in (3, 4)] == warnings_of(done)


def test_its_events_are_all_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    done = run(f"Cluster(topics=['t'], events={str(path)!r}).__enter__()\n")
    assert 0 == done.returncode, done.stderr
    assert "leadership_taken" in {json.loads(event)["kind"] for event in path.read_text().splitlines()}


def test_a_cluster_that_is_left_is_not_spoken_of() -> None:
    done = run("with Cluster() as cluster:\n    pass\nwith cluster:\n    pass\n")
    assert (0, "") == (done.returncode, done.stderr)


def test_one_whose_thread_does_not_answer_is_given_up() -> None:
    """A function of a rule that never returns holds the brokers for ever."""
    done = run(
        "from odradek.testing import cluster as module\n"
        "module.LAST_WORDS_S = 0.05\n"
        "cluster = Cluster().__enter__()\n"
        "stuck = threading.Event()\n"
        "cluster._running.loop.call_soon_threadsafe(lambda: (stuck.set(), threading.Event().wait()))\n"
        "stuck.wait()\n"
    )
    assert 0 == done.returncode, done.stderr
    assert NEVER_LEFT in done.stderr


FORKING = """
with Cluster(topics=["t"]) as cluster:
    cluster.add_rule(rule("PRODUCE", throttle_ms=1))
    child = os.fork()
    if not child:
        try:
            {act}
        except RuntimeError as error:
            print(error, flush=True)
            os._exit(3)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert cluster.leader("t", 0) == 1
print(os.waitstatus_to_exitcode(status), flush=True)
"""

DRIVES = [
    "cluster.leader('t', 0)",
    "cluster.verify()",
    "cluster.add_rule(rule('PRODUCE', hold=True))",
    "cluster.wait(transaction={'id': 'x', 'state': 'none'})",
    "cluster.wait_for(lambda: True)",
    "cluster.wait_for_telemetry()",
    "cluster.stop_broker(1)",
    "cluster.__enter__()",
    "cluster.__exit__(None, None, None)",
]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked here")
def test_a_forked_process_is_told_that_it_cannot_drive_the_cluster() -> None:
    done = run(
        "def told(act):\n"
        "    try:\n"
        "        eval(act)\n"
        "    except RuntimeError as error:\n"
        "        return str(error)\n" + FORKING.format(act=f"print(*map(told, {DRIVES!r}), sep=chr(10), flush=True)")
    )
    assert "" == done.stderr
    *sentences, code = done.stdout.splitlines()
    assert [True] * len(DRIVES) == [each.startswith(FORKED) for each in sentences], sentences
    assert "0" == code


WITHOUT_HARM = {
    "reaching the brokers": "host, port = cluster.bootstrap.split(':'); socket.create_connection((host, int(port)))",
    "a cluster of its own": 'exec(\'with Cluster(topics=["t"]) as own: assert own.leader("t", 0) == 1\')',
    "the end of a test": "from odradek.testing import proof; proof.verify_running(None)",
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked here")
@pytest.mark.parametrize("act", WITHOUT_HARM)
def test_what_a_forked_process_can_do(act: str) -> None:
    done = run(FORKING.format(act=WITHOUT_HARM[act]))
    assert ("0\n", "") == (done.stdout, done.stderr)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked here")
@pytest.mark.parametrize(("leave", "code"), [("sys.exit(7)", 7), ("raise ValueError('mine')", 1), ("pass", 1)])
def test_a_forked_process_leaves_the_block_with_its_own_error_or_with_ours(leave: str, code: int) -> None:
    done = run(
        "child = 1\n"
        "try:\n"
        "    with Cluster(topics=['t']) as cluster:\n"
        "        child = os.fork()\n"
        "        if not child:\n"
        f"            {leave}\n"
        "        else:\n"
        "            status = os.waitpid(child, 0)[1]\n"
        "            assert cluster.leader('t', 0) == 1\n"
        "except (ValueError, RuntimeError) as error:\n"
        "    print(error, flush=True)\n"
        "    sys.exit(1)\n"
        "print(os.waitstatus_to_exitcode(status), flush=True)\n"
    )
    assert "" == done.stderr
    *said, told = done.stdout.splitlines()
    assert str(code) == told
    assert {"sys.exit(7)": [], "raise ValueError('mine')": ["mine"]}.get(leave, said) == said
    assert said[0].startswith(FORKED) if leave == "pass" else True
