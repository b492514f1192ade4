"""The followers of a partition as its leader sees them: each is an acknowledged offset.

No bytes are copied. A replica whose broker acknowledges at once has all records, and costs nothing; for one that lags
(`odradek.replica.lag.ms`) the log keeps the end of its records (`Log.behind`). Every replica in sync has all records
below the high watermark (KIP-101), which does not advance while fewer replicas are in sync than `min.insync.replicas`
(KIP-966).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping

from msgspec import Struct

from odradek.log.log import Log

__all__ = ["NEVER", "Follower", "Followers"]

NEVER = -1
"""Lag of a replica that acknowledges nothing."""


class Follower(Struct):
    """A replica that lags."""

    lag_ms: int
    lacks: deque[tuple[int, int]]
    """Unacknowledged ends of the log, each with its time (ms), oldest first."""

    @property
    def next_at(self) -> int | None:
        """Time (ms) of its next acknowledgement."""
        return self.lacks[0][0] + self.lag_ms if self.lacks and self.lag_ms != NEVER else None


class Followers:
    """The replicas besides the leader's, in one term of it."""

    def __init__(self, log: Log, *, leader: int) -> None:
        self._log = log
        self._leader = leader
        self._slow: dict[int, Follower] = {}
        self._alive: frozenset[int] = frozenset()
        self._replicas: tuple[int, ...] = ()
        self._required = 1
        self.in_sync: tuple[int, ...] = ()
        """The ISR, the leader in it."""
        self.joining: frozenset[int] = frozenset()
        """Replicas that were proposed for the ISR: they count for the high watermark from then on.

        They count until a newer state of the partition arrives, or the controller refuses them: it may have accepted
        them although its answer was lost, or was that it has a newer state.
        """
        self._epoch = -1
        """Epoch of the partition's state that is known here."""

    def adopt(
        self,
        *,
        replicas: tuple[int, ...],
        in_sync: tuple[int, ...],
        required: int,
        lags: Mapping[int, int],
        alive: Collection[int],
        new: Collection[int],
        epoch: int,
        now: int,
    ) -> bool:
        """Adopt a new state of the partition; True if that moves the high watermark.

        `epoch` is that of the state: a proposal with an older one was accepted by now, or never will be.
        `lags` has the milliseconds of each other replica; those that are not alive acknowledge nothing until they are
        back. `new` ones, which a reassignment adds, begin without records. `required` replicas must be in sync.
        """
        log, end = self._log, self._log.end_offset
        before = end if log.mark is None else log.mark
        self._replicas, self._required = replicas, required
        self._alive = frozenset(alive)
        self.in_sync = in_sync
        self.joining = frozenset() if epoch > self._epoch else self.joining - frozenset(in_sync)
        self._epoch = epoch
        slow: dict[int, Follower] = {}
        for replica, lag_ms in lags.items():
            if lag_ms == 0 and replica in self._alive:
                log.catch_up(replica)
                continue
            known = self._slow.get(replica)
            if replica not in log.behind:
                begins = known is None and replica in new and replica not in in_sync
                log.acknowledge(replica, log.start_offset if begins else end)
            slow[replica] = self._follower(known, replica, lag_ms if replica in self._alive else NEVER, now)
        self._slow = slow
        for gone in log.behind.keys() - lags.keys():
            del log.behind[gone]
        if len(in_sync) >= required and not any(each in in_sync or each in self._alive for each in slow):
            log.mark = None
        elif log.mark is None:
            log.mark = end
        self._move_mark()
        return (log.end_offset if log.mark is None else log.mark) != before

    def _follower(self, known: Follower | None, replica: int, lag_ms: int, now: int) -> Follower:
        lacks: deque[tuple[int, int]] = deque()
        end = self._log.end_offset
        if self._log.behind[replica] < end:
            if known is not None and NEVER not in (lag_ms, known.lag_ms):
                lacks = known.lacks
            elif known is not None and known.lacks and lag_ms == NEVER:
                lacks.append((known.lacks[0][0], end))
            else:
                lacks.append((now, end))
        return Follower(lag_ms, lacks)

    def grew(self, now: int) -> None:
        """Note an append."""
        end = self._log.end_offset
        for follower in self._slow.values():
            lacks = follower.lacks
            if lacks and (follower.lag_ms == NEVER or lacks[-1][0] == now):
                lacks[-1] = (lacks[-1][0], end)
            else:
                lacks.append((now, end))
        self._move_mark()

    def advance(self, now: int) -> bool:
        """Take the acknowledgements until now; True if they move the high watermark."""
        for replica, follower in self._slow.items():
            lacks, lag_ms = follower.lacks, follower.lag_ms
            while lag_ms != NEVER and lacks and lacks[0][0] + lag_ms <= now:
                self._log.acknowledge(replica, lacks.popleft()[1])
        return self._move_mark()

    def _move_mark(self) -> bool:
        log = self._log
        if log.mark is None or len(self.in_sync) < self._required:
            return False
        behind = [log.behind[each] for each in (*self.in_sync, *self.joining) if each in log.behind]
        mark = min(behind, default=log.end_offset)
        if mark <= log.mark:
            return False
        log.mark = mark
        return True

    @property
    def are_level(self) -> bool:
        """Whether every replica is in sync and has all records: there is nothing to plan, or to propose."""
        return not self._slow and not self.joining and len(self.in_sync) == len(self._replicas)

    def next_at(self) -> int | None:
        """Time (ms) of the next acknowledgement."""
        return min((at for each in self._slow.values() if (at := each.next_at) is not None), default=None)

    def begin_there_at(self, since: int) -> int | None:
        """When all live replicas have adopted the log start that the leader has since this time (ms); None: never."""
        lags = [follower.lag_ms for replica, follower in self._slow.items() if replica in self._alive]
        return None if NEVER in lags else since + max(lags, default=0)

    def wanted(self, now: int, *, lag_max_ms: int, first_offset: int) -> list[int]:
        """The ISR as it should be: without replicas that lag for too long, with those that have caught up.

        A replica that lacks a record for more than `lag_max_ms` (replica.lag.time.max.ms) is out of sync. To come back
        it needs all committed records, and those that this leader began with. A proposed replica stays in until the
        outcome is known.
        """
        log = self._log
        enough = max(log.end_offset if log.mark is None else log.mark, first_offset)
        isr = [each for each in self.in_sync if each == self._leader or not self._lags(each, now, lag_max_ms)]
        for replica in self._replicas:
            if replica in self.joining:
                isr.append(replica)
            elif replica in self._alive and replica not in self.in_sync:
                follower = self._slow.get(replica)
                caught_up = log.behind.get(replica, log.end_offset) >= enough
                # With too few replicas in sync the high watermark stands still, so one that fell out has all committed
                # records: it waits until it lacks newer ones only, or it would go in and out without end.
                late = self._lags(replica, now, lag_max_ms)
                if follower is None or (caught_up and not late and follower.lag_ms != NEVER):
                    isr.append(replica)
        return isr

    def _lags(self, replica: int, now: int, lag_max_ms: int) -> bool:
        follower = self._slow.get(replica)
        return follower is not None and bool(follower.lacks) and now - follower.lacks[0][0] > lag_max_ms

    def falls_out_at(self, lag_max_ms: int) -> int | None:
        """When the next replica will lag for too long (ms)."""
        times = [
            follower.lacks[0][0] + lag_max_ms + 1
            for replica, follower in self._slow.items()
            if follower.lacks and replica in self.in_sync
        ]
        return min(times, default=None)
