"""`docs/states.md` says what the tables say."""

from pathlib import Path

from odradek.tools.states_doc import states_doc

PAGE = Path(__file__).parents[3] / "docs" / "states.md"


def test_the_page_is_fresh() -> None:
    assert states_doc() == PAGE.read_text(encoding="utf-8")
