"""Patterns of clients, held to what a broker of Kafka 4.4 answered for each."""

from __future__ import annotations

import pytest

from odradek.wire.patterns import InvalidPattern, matcher

IDS = ("a" * 36, "é", "A", "new\nline", "a1")
LONG, ACCENT, UPPER, LINES, DIGIT = IDS


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("a+", [LONG]),
        ("(a+)+c", []),
        ("(?:a?){1000}a*", [LONG]),
        ("a{1000}", []),
        ("(a{30}){30}", []),
        (r"\pL+", [LONG, ACCENT, UPPER]),
        (r"\p{Latin}+", [LONG, ACCENT, UPPER]),
        ("[[:alpha:]]+", [LONG, UPPER]),
        ("(?i)a", [UPPER]),
        ("(?i)É", [ACCENT]),
        ("(?<n>a)", []),
        ("(?P<n>A)", [UPPER]),
        (r"\QA\E", [UPPER]),
        (r"\x{e9}", [ACCENT]),
        (".", [ACCENT, UPPER]),
        (".*", [LONG, ACCENT, UPPER, DIGIT]),
        ("(?s).*", list(IDS)),
        ("new.line", []),
        ("^A$", [UPPER]),
        (r"A\z", [UPPER]),
        ("A|", [UPPER]),
        (r"\bA\b", [UPPER]),
        ("[^a]", [ACCENT, UPPER]),
        (r"a\d", [DIGIT]),
        ("a{,3}", []),
        ("(" * 1100 + "a+" + ")" * 1100, [LONG]),
        ("x" * 32_000, []),
    ],
)
def test_what_a_pattern_matches(pattern: str, matched: list[str]) -> None:
    matches = matcher(pattern)
    assert not isinstance(matches, InvalidPattern)
    assert matched == [each for each in IDS if matches(each)]


@pytest.mark.parametrize(
    "pattern",
    [
        *("(", "[", "*", "\\", "a++", "a**", "a{1001}", "a{2,1}"),
        *(r"\8", r"\h", r"\R", r"\Z", r"\u00e9", r"(a)\1", "(?=a).*", "(?#c)A", "(?x)A B"),
    ],
)
def test_what_is_no_pattern(pattern: str) -> None:
    assert isinstance(matcher(pattern), InvalidPattern)


def test_what_does_not_fit_is_no_pattern() -> None:
    assert isinstance(matcher("((a{100}){100}){100}"), InvalidPattern)
    assert isinstance(matcher(r"(?:\pL{30}\p{Greek}{30}){30}" * 100), InvalidPattern)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", "missing closing )"),
        ("*", "missing argument to repetition operator"),
        ("(?<!a)b", "invalid named capture"),
        ("a)", "unexpected )"),
    ],
)
def test_why_it_is_no_pattern(pattern: str, reason: str) -> None:
    assert InvalidPattern(reason) == matcher(pattern)
