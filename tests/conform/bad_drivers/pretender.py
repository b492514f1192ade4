"""A driver without a library, for tests: it answers `done` to everything, and misbehaves as its argument says."""

import json
import os
import subprocess
import sys
import time
from typing import Any

VERBS = ["init", "begin", "send", "flush", "send_offsets", "commit", "abort", "subscribe", "poll", "close"]
HELLO = {"hello": {"library": "pretender", "version": "1", "language": "python", "verbs": VERBS}}


def say(line: object) -> None:
    print(json.dumps(line), flush=True)


def raw(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def done(request: dict[str, Any]) -> dict[str, Any]:
    match request:
        case {"verb": "send", "wait": True}:
            return {"partition": 0, "offset": 0}
        case {"verb": "poll"}:
            return {"records": []}
        case _:
            return {}


def misbehave(how: str, request: dict[str, Any]) -> None:
    """What happens in place of the answer to `begin`."""
    number = request["id"]
    match how:
        case "dies":
            print("out of order", file=sys.stderr, flush=True)
            os._exit(7)
        case "killed":
            os.kill(os.getpid(), 9)
        case "hangs":
            time.sleep(600)
        case "closes":
            os.close(1)
            time.sleep(600)
        case "floods-line":
            raw("x" * (3 << 20))
        case "floods-lines":
            while True:
                say({"id": number + 1, "done": {}})
        case "floods-stderr":
            while True:
                print("x" * 65_000, file=sys.stderr)
        case "no-json":
            raw("DEBUG: beginning\n")
        case "binary":
            sys.stdout.buffer.write(b"\xff\xfe\x00\n")
            sys.stdout.flush()
        case "other-id":
            say({"id": number + 5, "done": {}})
        case "both":
            say({"id": number, "done": {}, "error": {"name": "X", "class": "fatal"}})
        case "neither":
            say({"id": number})
        case "class":
            say({"id": number, "error": {"name": "X", "class": "harmless"}})
        case "unable":
            say({"id": number, "unsupported": "no transactions"})
        case "list":
            say([number])
        case "done-is-text":
            say({"id": number, "done": "yes"})
        case _:
            raise AssertionError(how)


def main() -> None:
    how = sys.argv[1] if len(sys.argv) > 1 else ""
    if how == "no-hello":
        time.sleep(600)
    if how == "wrong-hello":
        say({"hi": 1})
    if how == "dies-at-start":
        sys.exit(3)
    if how == "leaves-children":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        print(child.pid, file=sys.stderr, flush=True)
    say(HELLO)
    if how == "deaf":
        time.sleep(600)
    for line in sys.stdin:
        request = json.loads(line)
        if request["verb"] == "begin" and how not in ("", "leaves-children", "no-offset", "stays", "errors"):
            misbehave(how, request)
        elif request["verb"] == "begin" and how == "errors":
            error = {"name": "TIMED_OUT" if request["client"] == "slow" else "OUT_OF_MEMORY", "class": "unknown"}
            say({"id": request["id"], "error": error})
        else:
            say({"id": request["id"], "done": {} if how == "no-offset" else done(request)})
    if how == "stays":
        time.sleep(600)


main()
