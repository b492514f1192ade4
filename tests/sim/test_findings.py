"""Seeds that have found something, each with what that was."""

from __future__ import annotations

import pytest

from odradek.sim.run import run
from odradek.sim.workloads.draw import draw

FINDINGS = [
    # A rule refused the first batch of an older producer, of whom its leader had not heard: it takes any sequence then.
    (3040, "idempotent"),
    # A batch of the transaction before was written while the next one was asked about, and took the guard of both.
    (3061, "refusals"),
    # A consumer that was told to stop took an answer from long before for the last one.
    # A producer waited for ever for a topic that was deleted for good.
    (4000, "remade-topics"),
    (4003, "idempotent"),
    (4038, "idempotent"),
    # An epoch was to be used up of an id that began a transaction just then.
    (4033, "worn-epochs"),
    # A broker was to stand still for a moment, and did so for as long as an admin asked in vain.
    (3, "follow-ups"),
    # What was acknowledged while its lock was being given back stayed with nobody for ever.
    (6104, "sharing"),
    # A lot that was acquired again in two parts had one owner, so that the other one was told it had nothing.
    (6021, "sharing"),
    # The log of level 0 does not tell a new coordinator which epoch was bumped, in Kafka either.
    (6023, "lost-answers"),
    (6023, "rivals"),
    # A marker was sent to a new leader while the old one had not answered, and ended the next transaction of its epoch.
    (20019, "late-acknowledgements"),
    (20060, "restless-leaders"),
    # A leader that had not heard yet that a replica was gone committed without it, and that one led later.
    (20063, "general"),
    # Markers to one broker were held up one behind the other, for so long that they were sent again.
    (20015, "sessions"),
    # An epoch counted as used up of an id that was at work by then.
    (20007, "worn-epochs"),
    (20011, "worn-epochs"),
    # A producer whose epoch had been forced retried a bump from before that.
    (20106, "worn-epochs"),
    # The epoch that was forced was the next one, as if the producer had ended a transaction.
    (20119, "worn-epochs"),
    # A leader that began with a snapshot had forgotten which transactions wait for their markers to be committed.
    (20136, "lagging"),
    # A coordinator found a decision in its log that the one before had been unable to tell of.
    (20148, "general"),
    # An id was described whose first record waited to be committed.
    (20160, "walking-away"),
    # Of a bump of level 0 that was written, and refused because its log had gone to another coordinator, that one
    # knows nothing, in Kafka either.
    (20110, "lagging"),
    # Two deliveries of one millisecond were taken in the wrong order.
    (6105, "sharing"),
    # Markers that a rule delayed waited for one another for longer than a request may take, and were sent again: the
    # late one ended the next transaction of an older client, which KIP-890 does not cure.
    (32, "working"),
    # Epochs were used up by force, and who asked again for its last bump was told of the forced one.
    (13, "last-epochs"),
    # An epoch was called used up of an id that had begun a transaction just then.
    (23, "last-epochs"),
    # Who asks for the next epoch of an id that was forgotten is its first owner.
    (14, "slow-logs"),
    # A coordinator whose log had too few replicas in sync could not abort what was open for too long.
    (20317, "swarm"),
    # A coordinator that had not heard that a replica was gone waited for it, and its group's members with it.
    (20328, "removed-leaders"),
    # Several rules together held markers up for so long that they were sent again.
    (20348, "heartbeats"),
    # A broker that heard nothing from the first moment on did not know that the group reads what is committed.
    (20420, "sharing"),
    # A coordinator was asked again before it had answered, and its answer was taken for that to the later question.
    (21125, "hurried"),
    # An offset was written behind the decision to abort, and its transaction was over before the model expected it.
    (147, "days-ahead"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "workload"), FINDINGS)
def test_what_was_found_is_mended(seed: int, workload: str) -> None:
    assert run(draw(seed, workload)).committed > 0
