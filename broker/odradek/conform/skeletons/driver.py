"""A driver for `odradek conform`: fill in the ten verbs and `failure`; the loop at the end needs no change.

A verb gets the fields of its request by name, and gives a dict for the answer or None. It raises what the client
raises; `failure` gives that its name and class. Raise Unsupported for something that the client cannot do.
"""

import json
import os
import sys
import threading
import traceback
from collections.abc import Callable
from typing import NamedTuple

# The judge waits for 30 s, or 5 s beyond the timeout_ms of a request.
PATIENCE_MS = 25_000
POLL_GRACE_MS = 4_000
Fields = dict[str, object]
Done = Fields | None


class Unsupported(Exception):
    """The client cannot do this."""


class Failure(NamedTuple):
    """An error as the judge reads it; class: retriable, abortable, fatal or unknown."""

    name: str
    category: str
    message: str


class Driver:
    """The part that you write."""

    library = "my-client"
    version = "0.0"

    def failure(self, client: str, error: BaseException) -> Failure:
        """Name: as in Kafka's table of errors (PRODUCER_FENCED). Category: what the client tells its user to do.

        An error of your own code comes here as well; standard error has its traceback.
        """
        return Failure(type(error).__name__, "unknown", str(error))

    def init(self, client: str, role: str, bootstrap: str, config: Fields, needs: list[str], lazy: bool) -> Done:
        """Makes a producer or a consumer. `config` has the names of the Java client.

        Raise Unsupported if you lack a key of `needs`: without it the scenario has no sense. A producer with a
        transactional.id initialises its transactions here, unless `lazy`: then at a second init.
        """
        raise Unsupported("init")

    def begin(self, client: str) -> Done:
        raise Unsupported("begin")

    def send(self, client: str, topic: str, value: str, partition: int | None, key: str | None, wait: bool) -> Done:
        """With `wait`: waits for the acknowledgement, and gives {"partition": p, "offset": o}."""
        raise Unsupported("send")

    def flush(self, client: str) -> Done:
        """Waits for all that was sent; raises the first error since the last flush."""
        raise Unsupported("flush")

    def send_offsets(self, client: str, group: str, consumer: str | None, offsets: list[Fields]) -> Done:
        """`consumer`: the name of a client, or None. `offsets`: dicts with topic, partition, offset."""
        raise Unsupported("send_offsets")

    def commit(self, client: str) -> Done:
        """Of the transaction; of a consumer, its positions."""
        raise Unsupported("commit")

    def abort(self, client: str) -> Done:
        """Records that it drops fail; the next flush or commit must not raise their errors again."""
        raise Unsupported("abort")

    def subscribe(self, client: str, topics: list[str], mode: str) -> Done:
        """Mode: classic or consumer (KIP-848)."""
        raise Unsupported("subscribe")

    def poll(self, client: str, max: int, timeout_ms: int) -> Done:
        """Reads until there are `max` records or the time is over; no records are no error.

        Gives {"records": [{"topic": t, "partition": p, "offset": o, "key": k, "value": v}, ...]}.
        """
        raise Unsupported("poll")

    def close(self, client: str) -> Done:
        """Forgets the client; an open transaction is left as it is where the client can do that."""
        raise Unsupported("close")


# ---- The loop: a request a line, an answer a line ----------------------------------------------------------------

# Fields that a request may leave out.
DEFAULTS: dict[str, Fields] = {
    "init": {"config": {}, "needs": [], "lazy": False},
    "send": {"partition": None, "key": None, "wait": False},
    "send_offsets": {"consumer": None},
    "subscribe": {"mode": "classic"},
    "poll": {"max": 500, "timeout_ms": 0},
}
FIELDS = {
    "init": ("role", "bootstrap"),
    "send": ("topic", "value"),
    "send_offsets": ("group", "offsets"),
    "subscribe": ("topics",),
}


def verbs(of: Driver) -> dict[str, Callable[..., Done]]:
    return {
        "init": of.init,
        "begin": of.begin,
        "send": of.send,
        "flush": of.flush,
        "send_offsets": of.send_offsets,
        "commit": of.commit,
        "abort": of.abort,
        "subscribe": of.subscribe,
        "poll": of.poll,
        "close": of.close,
    }


def answer(driver: Driver, request: Fields) -> Fields:
    verb = str(request["verb"])
    if verb not in verbs(driver):
        return {"unsupported": f"no verb {verb}"}
    names = ["client", *FIELDS.get(verb, ()), *DEFAULTS.get(verb, {})]
    given = {**DEFAULTS.get(verb, {}), **{name: request[name] for name in names if request.get(name) is not None}}
    outcomes: list[Fields] = []

    def call() -> None:
        try:
            outcomes.append({"done": verbs(driver)[verb](**given) or {}})
        except Unsupported as why:
            outcomes.append({"unsupported": str(why)})
        except BaseException as error:
            traceback.print_exc()
            name, category, message = failure_of(driver, str(request["client"]), error)
            outcomes.append({"error": {"name": name, "class": category, "message": message}})

    # in a thread, so that a call that never ends costs its request alone; it is not cancelled
    calling = threading.Thread(target=call, daemon=True)
    calling.start()
    limit_ms = int(str(request.get("timeout_ms", PATIENCE_MS))) + (POLL_GRACE_MS if verb == "poll" else 0)
    calling.join(limit_ms / 1000)
    late: Fields = {"error": {"name": "TIMED_OUT", "class": "unknown", "message": "the client has not finished"}}
    return outcomes[0] if outcomes else late


def failure_of(driver: Driver, client: str, error: BaseException) -> Failure:
    try:
        return driver.failure(client, error)
    except Exception as own:
        traceback.print_exc()
        return Failure("ERROR", "unknown", f"the driver's failure() raised {own!r}")


def run(driver: Driver) -> None:
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer

    def say(line: Fields) -> None:
        print(json.dumps(line), file=answers, flush=True)

    about = {"library": driver.library, "version": driver.version, "language": "python", "verbs": list(verbs(driver))}
    say({"hello": about})
    for line in sys.stdin:
        request = json.loads(line)
        say({"id": request["id"], **answer(driver, request)})
    os._exit(0)  # the client's threads must not hold the process


if __name__ == "__main__":
    run(Driver())
