"""`odradek demo produce`: one transaction after the other; some abort, and in some the process dies.

The director, or the restart policy of a container, starts it again with the same transactional id.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable
from random import Random
from typing import NoReturn

from confluent_kafka import KafkaError, KafkaException, Producer

from odradek.demo.lines import Began, Committing, Ended, Started, Tell, Trouble
from odradek.demo.options import ProduceOptions
from odradek.demo.transfers import Fate, Plan, encode_posting, plans

__all__ = ["CRASHED", "produce"]

CRASHED = 137  # the exit code of a process that was killed with SIGKILL, as a shell or a container reports it
PATIENCE_S = 30.0
COMMIT_S = 0.02  # how long a commit takes, until one has been measured


def produce(options: ProduceOptions, *, tell: Tell, stopped: threading.Event) -> int:
    """Write transactions until it is time to stop or to crash; returns the exit code."""
    try:
        life = _Life(options, tell)
        life.start()
        life.run(stopped)
    except KafkaException as failure:  # a fatal error, or too many retries: a new instance begins with a new epoch
        tell(Trouble(f"{options.transactional_id}: {failure.args[0].str()}", fatal=True))
        return 1
    return 0


class _Life:
    """One instance of a producer, between two crashes."""

    def __init__(self, options: ProduceOptions, tell: Tell) -> None:
        self._options = options
        self._tell = tell
        self._random = Random(options.seed)
        self._commit_s = COMMIT_S
        self._producer = Producer(
            {
                "bootstrap.servers": options.bootstrap,
                "client.id": options.transactional_id,
                "transactional.id": options.transactional_id,
                "linger.ms": 0,
                "error_cb": lambda error: tell(Trouble(f"{options.transactional_id}: {error.str()}")),
            }
        )

    def start(self) -> None:
        """Fence the last instance, and end its open transaction."""
        self._insist(lambda: self._producer.init_transactions(PATIENCE_S))
        self._tell(Started(self._options.transactional_id))

    def run(self, stopped: threading.Event) -> None:
        options = self._options
        run = secrets.token_hex(4)
        planned = plans(run, self._random, abort_every=options.abort_every, crash_every=options.crash_every)
        next_at = time.monotonic()
        for number, plan in enumerate(planned):
            if number == options.transactions or stopped.wait(max(0.0, next_at - time.monotonic())):
                return
            next_at = max(next_at + 1 / options.rate, time.monotonic() - 1)
            self._transact(plan)

    def _transact(self, plan: Plan) -> None:
        self._tell(Began(plan.transfer, len(plan.postings), plan.fate))
        self._producer.begin_transaction()
        for posting in plan.postings:
            self._producer.produce(self._options.topic, encode_posting(posting), posting.account)
        if plan.fate is Fate.CRASH_SENDING:
            self._producer.poll(self._random.uniform(0, self._commit_s))
            _crash()
        self._producer.flush(PATIENCE_S)
        if plan.fate is Fate.CRASH_OPEN:
            _crash()
        committed = plan.fate is not Fate.ABORT and self._commit(plan)
        if not committed:
            self._insist(lambda: self._producer.abort_transaction(PATIENCE_S))
        self._tell(Ended(plan.transfer, committed))

    def _commit(self, plan: Plan) -> bool:
        """Commit; False if the transaction must be aborted."""
        self._tell(Committing(plan.transfer))
        bomb: threading.Timer | None = None
        if plan.fate is Fate.CRASH_COMMITTING:
            # Before the request is sent, in flight, or after the response; cubed, because it is sent at once.
            bomb = threading.Timer(1.5 * self._commit_s * self._random.random() ** 3, _crash)
            bomb.start()
        began = time.monotonic()
        try:
            self._insist(lambda: self._producer.commit_transaction(PATIENCE_S))
        except KafkaException as failure:
            error = failure.args[0]
            if not error.txn_requires_abort():
                raise
            self._tell(Trouble(f"{self._options.transactional_id}: {error.str()}"))
            return False
        self._commit_s += (time.monotonic() - began - self._commit_s) / 8
        if bomb is not None:
            bomb.join()
        return True

    def _insist(self, call: Callable[[], None]) -> None:
        """Call again after errors that the client calls retriable."""
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                return call()
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
                if not error.retriable() or time.monotonic() >= end:
                    raise
                self._tell(Trouble(f"{self._options.transactional_id}: {error.str()}"))


def _crash() -> NoReturn:
    """Nothing is flushed, aborted or closed: to the broker this is `kill -9`.

    Inside a container SIGKILL would do nothing, because a process with id 1 cannot send it to itself.
    """
    os._exit(CRASHED)
