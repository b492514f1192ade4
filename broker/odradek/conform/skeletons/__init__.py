"""Skeletons of drivers for `odradek conform`, a file a language: the protocol is done, ten verbs are missing."""

from pathlib import Path

__all__ = ["FOLDER", "LANGUAGES", "skeleton"]

FOLDER = Path(__file__).resolve().parent
LANGUAGES: dict[str, str] = {
    "python": "driver.py",
    "go": "driver.go",
    "java": "Driver.java",
    "node": "driver.mjs",
    "rust": "driver.rs",
}


def skeleton(language: str) -> str:
    """The text of the skeleton in a language of `LANGUAGES`."""
    return (FOLDER / LANGUAGES[language]).read_text(encoding="utf-8")
