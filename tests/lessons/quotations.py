"""Looks the quotations of the lessons up in the texts of the KIPs.

`python -m tests.lessons.quotations FOLDER` reads FOLDER/kip-890.txt and the like, the texts of the wiki's pages, and
writes down in quotations.txt which quotations stand there, each behind the heading of its section. The tests, which
have no such folder, hold the lessons against that list.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from odradek.page.lessons import LessonRule, lesson_names, read_lesson

__all__ = ["FOUND", "digest", "quotations"]

FOUND = Path(__file__).with_name("quotations.txt")


def quotations() -> Iterator[tuple[str, LessonRule]]:
    """Every rule that quotes a KIP, with the story that it is of."""
    for name in lesson_names():
        for step in read_lesson(name).steps:
            if step.rule is not None and step.rule.quote:
                yield name, step.rule


def digest(rule: LessonRule) -> str:
    """A line of the list: KIP, a hash of section and quotation."""
    told = f"{rule.section}\n{rule.quote}".encode()
    return f"{rule.kip} {hashlib.sha256(told).hexdigest()[:32]}"


def missing(rule: LessonRule, text: str) -> str | None:
    """What of a quotation is not in the text of its KIP; None if all is well."""
    plain = _plain(text)
    # A heading is a line of its own; a quotation may go over several.
    headings = [found.end() for found in re.finditer(rf"^\W*{re.escape(rule.section)}\W*$", text, re.MULTILINE)]
    if not headings:
        return f"{rule.kip} has no section {rule.section!r}"
    if _plain(rule.quote) not in plain:
        return f"{rule.kip} does not say {rule.quote!r}"
    if not any(_plain(rule.quote) in _plain(text[heading:]) for heading in headings):
        return f"{rule.kip} says {rule.quote!r}, but before {rule.section!r}"
    return None


def _plain(text: str) -> str:
    """On one line, without the marks of code."""
    return " ".join(text.replace("`", "").split())


def main() -> None:
    """Write the list, or say what is wrong."""
    folder = Path(sys.argv[1])
    wrong = []
    for story, rule in quotations():
        problem = missing(rule, (folder / f"{rule.kip.lower()}.txt").read_text(encoding="utf-8"))
        if problem is not None:
            wrong.append(f"{story}: {problem}")
    if wrong:
        raise SystemExit("\n".join(wrong))
    lines = sorted({digest(rule) for _, rule in quotations()})
    FOUND.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{len(lines)} quotations stand in their KIPs")


if __name__ == "__main__":
    main()
