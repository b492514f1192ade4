"""`odradek show`: from an event file to a page or a picture."""

from __future__ import annotations

import json
import re
import webbrowser
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tests.unit.show.event_files import line, played, written

from odradek.cli.all_commands import commands_for
from odradek.cli.usage import UsageError
from odradek.show.command import FORMS

HOSTILE = "</script><script>alert(1)</script><!--<img onerror=alert(1)>\u2028"


def show(*words: object) -> None:
    commands_for("show").run(["show", *map(str, words)])


def data_of(page: Path) -> dict[str, Any]:
    """The data that a browser finds in a page."""
    found = _Scripts()
    found.feed(page.read_text(encoding="utf-8"))
    [data] = [text for kind, text in found.scripts if kind == "application/json"]
    parsed: dict[str, Any] = json.loads(data)
    return parsed


class _Scripts(HTMLParser):
    """The scripts of a page, by their type, and all elements."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[tuple[str | None, str]] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "script":
            self.scripts.append((dict(attrs).get("type"), ""))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == "script" and self.scripts:
            kind, text = self.scripts[-1]
            self.scripts[-1] = (kind, text + data)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A transaction of x, and one of y."""
    return written(tmp_path / "events.jsonl", played(["x", "y"]))


def test_the_page_is_beside_the_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show(file)
    page = file.with_name("events.jsonl.html")
    assert capsys.readouterr().out == f"{page}\n"
    data = data_of(page)
    [history] = data["histories"]
    assert history["title"] == "events.jsonl"
    assert history["transactions"] == ["x", "y"]
    assert len(history["steps"]) == len(file.read_bytes().splitlines())
    assert (data["difference"], data["why"], data["transaction"]) == (None, None, None)


def test_a_window_of_the_file(file: Path, tmp_path: Path) -> None:
    show(file, "-o", tmp_path / "some.html", "--first", 10, "--events", 3)
    [history] = data_of(tmp_path / "some.html")["histories"]
    assert [step["seq"] for step in history["steps"]] == [10, 11, 12]
    assert "from number 10 on" in history["note"]


def test_the_events_about_an_id(file: Path, tmp_path: Path) -> None:
    show(file, "-o", tmp_path / "y.html", "--transaction", "y")
    data = data_of(tmp_path / "y.html")
    [history] = data["histories"]
    assert data["transaction"] == "y"
    assert "y" in history["transactions"]


def test_nothing_in_the_data_ends_the_script(tmp_path: Path) -> None:
    file = written(tmp_path / "events.jsonl", [line(1, "fenced", transactional_id=HOSTILE, producer_id=1)])
    show(file)
    page = file.with_name("events.jsonl.html")
    [history] = data_of(page)["histories"]
    assert history["transactions"] == [HOSTILE]
    text = page.read_text(encoding="utf-8")
    assert "\u2028" not in text
    assert "<img" not in text
    assert text.count("</script>") == 2


def test_the_page_says_why(tmp_path: Path) -> None:
    why = {"now_ms": 1, "reasons": [], "sentences": ["Nothing is stuck."], "events": []}
    file = written(tmp_path / "events.jsonl", [line(1), line(2, "why", why=why)])
    show(file)
    assert data_of(file.with_name("events.jsonl.html"))["why"] == why


def test_two_files_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = written(tmp_path / "one.jsonl", played(commits=[True, True]))
    two = written(tmp_path / "two.jsonl", played(commits=[True, False], seed=2))
    show(one, two, "-o", tmp_path / "both.html")
    [sentence, path] = capsys.readouterr().out.splitlines()
    assert re.fullmatch(
        r"They differ first in x, requests to the coordinator: one\.jsonl has “EndTxn v5” \(event \d+\), "
        r"two\.jsonl has “EndTxn v5” \(event \d+\): committed is True and False\.",
        sentence,
    )
    assert path == str(tmp_path / "both.html")
    data = data_of(tmp_path / "both.html")
    assert data["difference"]["sentence"] == sentence
    assert [each["title"] for each in data["histories"]] == ["one.jsonl", "two.jsonl"]


def test_of_two_files_the_beginnings_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The newest events of a long run and of a short one are of different times."""
    short = written(tmp_path / "short", [line(seq, level_to=seq) for seq in range(1, 6)])
    long = written(tmp_path / "long", [line(seq, level_to=seq) for seq in range(1, 60)])
    show(short, long, "--events", 4, "-o", tmp_path / "both.html")
    assert "short and long do not differ in the events that were read." in capsys.readouterr().out


def test_one_transaction_of_two_files_is_compared_to_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What one file lacks at the end is a difference, though most events of both files are left out."""
    told = played(["x", "y"])
    ends = next(number for number, each in enumerate(told) if b"marker_written" in each)
    without = [each for number, each in enumerate(told) if number < ends or b'"x"' not in each]
    show(
        written(tmp_path / "a", told), written(tmp_path / "b", without), "--transaction", "x", "-o", tmp_path / "x.html"
    )
    assert "a has “PrepareCommit → CompleteCommit, epoch 1”" in capsys.readouterr().out


def test_pictures(file: Path, tmp_path: Path) -> None:
    """Without an id it is the transaction that ended last."""
    show(file, "--out", tmp_path / "last.mmd")
    assert "participant L0 as client, y" in (tmp_path / "last.mmd").read_text()
    show(file, "--transaction", "x", "-o", tmp_path / "x.svg")
    assert "The transaction of x" in (tmp_path / "x.svg").read_text()


def test_it_is_opened(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def opens(url: str) -> bool:
        """There is a browser the first time."""
        opened.append(url)
        return len(opened) == 1

    monkeypatch.setattr(webbrowser, "open", opens)
    show(file, "--open")
    assert opened == [file.with_name("events.jsonl.html").as_uri()]
    with pytest.raises(UsageError, match="There is no browser to open"):
        show(file, "--open")


def test_a_folder_that_takes_no_files(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The page goes to a temporary folder; here its name is taken by a folder."""
    file.with_name("events.jsonl.html").mkdir()
    show(file)
    [path] = capsys.readouterr().out.splitlines()
    assert Path(path).parent != file.parent
    assert data_of(Path(path))["histories"]


def test_what_cannot_be_written_is_refused_in_a_sentence(file: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the name of what is written ends in .*\.svg.* or \.\w+$"):
        show(file, "--out", "picture.png")
    with pytest.raises(UsageError, match=r"x\.svg: No such file"):
        show(file, "--out", tmp_path / "none" / "x.svg")


@pytest.mark.parametrize("form", sorted(FORMS))
def test_every_form_is_written(file: Path, tmp_path: Path, form: str) -> None:
    show(file, "-o", tmp_path / f"it{form}")
    assert (tmp_path / f"it{form}").stat().st_size > 500


def test_a_page_loads_nothing(file: Path) -> None:
    show(file)
    text = file.with_name("events.jsonl.html").read_text(encoding="utf-8")
    found = _Scripts()
    found.feed(text)
    assert not {"img", "iframe", "object", "base"} & set(found.tags)
    assert re.findall(r'<link(?! rel="icon" href="data:)', text) == []
    assert re.findall(r"<script[^>]*src=", text) == []
    assert "default-src 'none'" in text
    assert "unsafe" not in text.partition('">')[0]


def test_a_story_is_a_page_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "lesson.html"
    show("--story", "late-produce-after-abort", "-o", page)
    assert f"{page}\n" == capsys.readouterr().out
    data = data_of(page)
    assert [] == data["histories"]
    lesson = data["lesson"]
    assert "late-produce-after-abort" == lesson["name"]
    assert {step["seq"] for step in lesson["steps"]} <= {step["seq"] for step in lesson["history"]["steps"]}


def test_a_story_is_named_after_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    show("--story", "epoch-overflow")
    assert ["epoch-overflow.html"] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), r"Name an event file, or a story"),
        (("--story", "late-produce"), r"There is no story late-produce\."),
        (("events.jsonl", "--story", "epoch-overflow"), r"An event file or a story, not both\."),
        (("--story", "epoch-overflow", "-o", "story.svg"), r"story\.svg: a story is written as NAME\.html"),
    ],
)
def test_what_cannot_be_shown_of_a_story(words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        show(*words)
