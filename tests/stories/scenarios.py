"""Which scenario of the client programs goes through which story, and what comes of it."""

from __future__ import annotations

from tests.clients.driver import Result, play
from tests.clients.lacking import with_toolchains

__all__ = ["SCENARIOS", "outcome_of", "played"]

COMMIT, OFFSETS, LATE = "story-commit", "story-offsets", "story-late"
LETTER = "story-share-dead-letter"
SCENARIOS = {
    "abortable-error-on-add-offsets": OFFSETS,
    "abortable-error-on-add-partitions": "story-second-topic",
    "abortable-error-on-commit-offsets": OFFSETS,
    "abortable-error-on-end": COMMIT,
    "abortable-error-on-produce": COMMIT,
    "broker-restarts-with-pending-markers": COMMIT,
    "concurrent-transactions-after-commit": COMMIT,
    "coordinator-loading": COMMIT,
    "coordinator-moves-in-prepare": COMMIT,
    "dead-letter-answer-lost": LETTER,
    "dead-letter-leader-moves": LETTER,
    "downgrade-under-way": COMMIT,
    "end-txn-answer-lost-in-complete": COMMIT,
    "end-txn-answer-lost-in-prepare": COMMIT,
    "end-txn-lost-in-ongoing": COMMIT,
    "epoch-overflow": "story-restart",
    "fenced-by-a-second-instance": "story-second-instance",
    "kip-360-recovery": COMMIT,
    "late-produce-after-abort": LATE,
    "late-produce-undefended": LATE,
    "leader-moves-with-open-transaction": COMMIT,
    "marker-between-verification-and-append": "story-timeout",
    "offset-commit-after-rebalance": "story-late-offsets",
    "producer-id-expires": "story-idle",
    "transaction-times-out-during-a-produce": "story-timeout",
    "unstable-offset-commit": "story-stable-offsets",
    "verification-times-out": COMMIT,
    "consumer-member-expires": "story-expired-member",
    "consumer-offsets-an-epoch-late": "story-late-epoch",
    "consumer-offsets-after-expiry": "story-late-epoch",
    "group-changes-protocol": "story-migration",
    "share-lock-expires": "story-share-lock",
    "share-aborted-records": "story-share-aborted",
    "streams-member-expires": "story-streams-expired",
}
OWN_PROGRAMS = {"story-share-": "kafka-share", "story-streams-": "kafka-streams"}
"""Share consumers of the Java client, which older releases have not, and Kafka Streams."""
OF_JAVA = {"unstable-offset-commit": "txn-offsets"}


def played(family: str, story: str, bootstrap: str, *, topic: str = "played", group: str = "kitchen") -> Result:
    """What a client's program says of a story that is arranged already."""
    scenario = SCENARIOS[story]
    if family == "java":
        scenario = OF_JAVA.get(story, scenario)
    if family == "java":
        family = next((own for start, own in OWN_PROGRAMS.items() if scenario.startswith(start)), family)
    with with_toolchains(family):
        server = bootstrap.split(",")[0]
        return play(
            family,
            scenario,
            server,
            topic=topic,
            group=group,
            transactional_id=f"till-{topic}",
            timeout=120,
            partitions=3,
        )


def outcome_of(result: Result) -> str:
    """In one word."""
    counts = result.counts
    if result.scenario == LATE:
        return {("next",): "defended", (): "hangs"}.get(tuple(counts["committed"]), f"committed {counts['committed']}")
    if result.scenario == "txn-offsets":
        assert counts["transactions"] > 1
        return "survives"
    return str(counts["outcome"])
