"""Telling stories to a broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct
from tests.security.credentials import CREDENTIALS
from tests.security.details import DETAILS
from tests.security.logins import LOGINS
from tests.security.permissions import ACLS, DENIALS, login
from tests.security.quotas import QUOTAS, THROTTLES
from tests.security.signed import SIGNED
from tests.security.tokens import TOKENS, TOKENS_OF_NOBODY
from tests.security.wire import Raw

__all__ = ["BOOKS", "Book", "play_book", "play_story"]


class Book(Struct, frozen=True):
    """Stories, and the listener that they are told to."""

    listener: str
    stories: Mapping[str, Callable[[Raw], None]]
    begins: Callable[[Raw], None] | None = None
    """What each of them begins with, untold."""


BOOKS: Mapping[str, Book] = {
    "logins": Book("SASL_PLAINTEXT", LOGINS),
    "credentials": Book("PLAINTEXT", CREDENTIALS),
    "acls": Book("PLAINTEXT", ACLS),
    "quotas": Book("PLAINTEXT", QUOTAS),
    "throttles": Book("PLAINTEXT", THROTTLES),
    "denials": Book("SASL_PLAINTEXT", DENIALS, login),
    "details": Book("SASL_PLAINTEXT", DETAILS, login),
    "tokens": Book("SASL_PLAINTEXT", TOKENS, login),
    "signed": Book("SIGNED", SIGNED),
    "tokens_of_nobody": Book("PLAINTEXT", TOKENS_OF_NOBODY),
}
"""All there are, by the name of the file that holds the answers."""


def play_story(book: Book, story: str, addresses: Mapping[str, tuple[str, int]]) -> list[str]:
    """The lines of one story."""
    with Raw(addresses[book.listener]) as raw:
        if book.begins is not None:
            book.begins(raw)
        book.stories[story](raw)
        return raw.lines


def play_book(book: Book, addresses: Mapping[str, tuple[str, int]]) -> dict[str, list[str]]:
    """The lines of each story."""
    return {story: play_story(book, story, addresses) for story in book.stories}
