"""Every key has a sentence that says what it is for."""

from __future__ import annotations

import re

from odradek.config.table import BROKER_KEYS, TOPIC_KEYS
from odradek.config.texts import BROKER_TEXTS, GROUP_TEXTS, TOPIC_TEXTS, broker_text
from odradek.config.without_effect import INERT_KEYS, NOMINAL_KEYS
from odradek.metadata.group_configs import GROUP_KEYS

FACTS = {"advertised.listeners", "broker.id", "listeners", "node.id", "process.roles"}
"""What a broker tells of itself beside its configuration."""
SENTENCES = [*BROKER_TEXTS.items(), *TOPIC_TEXTS.items(), *GROUP_TEXTS.items()]


def test_every_key_has_a_sentence_and_every_sentence_a_key() -> None:
    assert BROKER_KEYS.keys() | FACTS == BROKER_TEXTS.keys()
    assert TOPIC_KEYS.keys() == TOPIC_TEXTS.keys()
    assert GROUP_KEYS.keys() == GROUP_TEXTS.keys()


def test_each_is_a_sentence() -> None:
    form = re.compile(r"[A-Z].{19,217}\.")
    assert [] == [name for name, sentence in SENTENCES if not form.fullmatch(sentence)]


def test_what_has_no_effect_says_so() -> None:
    for name in INERT_KEYS - BROKER_TEXTS.keys():
        assert broker_text(name) == "Taken because Kafka has the key; it changes nothing here."
    assert NOMINAL_KEYS <= BROKER_TEXTS.keys()
    assert broker_text("no.such.key") is None


def test_a_default_of_topics_says_whose() -> None:
    sentence = TOPIC_TEXTS["retention.ms"]
    assert BROKER_TEXTS["log.retention.hours"] == f"For topics without their own retention.ms: {sentence}"
