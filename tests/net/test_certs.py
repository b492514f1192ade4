"""What certificates can be made of and where, and what is refused in a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.cli.all_commands import commands_for
from odradek.cli.usage import UsageError
from odradek.net.certs import make_certificates
from odradek.net.prepared import Prepared


def refused(*words: str) -> str:
    with pytest.raises(UsageError) as wrong:
        commands_for("certs").run(["certs", *words])
    return str(wrong.value)


@pytest.mark.parametrize(("words", "sentence"), [
    ("--client server", "No client can be called server"),
    ("--client Server", "No client can be called Server"),
    ("--client ca", "No client can be called ca"),
    ("--client truststore", "No client can be called truststore"),
    ("--client ../x", "'../x' is none"),
    ("--client a/b", "'a/b' is none"),
    ("--client .hidden", "'.hidden' is none"),
    ("--client=", "'' is none"),
    (f"--client {'x' * 65}", "is none"),
    ("--days 99999999", "--days: 99999999 is above 36500"),
    ("--host é.example", "A host is an address or a name of ASCII letters"),
    ("--host=", "A host is an address or a name of ASCII letters"),
    ("--host a,b", "A host is an address or a name of ASCII letters"),
])  # fmt: skip
def test_what_no_certificate_can_be_made_of(words: str, sentence: str, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "made"
    assert sentence in refused(*words.split(maxsplit=1), str(folder))
    assert [] == list(tmp_path.iterdir())


def test_the_names_that_there_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--client", "till 1", "--client", "jürgen@example.org", "--client", "till 1", "--host", "*.example.org"]
    commands_for("certs").run(["certs", *words, "--host", "fe80::1", str(tmp_path)])
    assert {"till 1.pem", "jürgen@example.org.p12"} <= {path.name for path in tmp_path.iterdir()}
    assert 1 == capsys.readouterr().out.count("key and certificate of the client till 1")


@pytest.mark.parametrize("parent", ["file", "nowhere-below-a-file"])
def test_a_folder_that_cannot_be(parent: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" if parent == "file" else tmp_path / "file" / "x"
    assert str(folder) in refused(str(folder))
    with pytest.raises(UsageError, match=str(folder)):
        Prepared("ssl", folder=folder)


def test_files_that_are_there_stay(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    before = made.server.read_bytes()
    assert "exists already" in refused(str(tmp_path))
    assert before == made.server.read_bytes()


def test_a_broker_makes_certificates_in_a_folder_of_their_own_alone(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").touch()
    with pytest.raises(UsageError, match=r"has files, but no certificates of `odradek certs`"):
        Prepared("ssl", folder=tmp_path)
    assert ["letters.txt"] == [path.name for path in tmp_path.iterdir()]
    (empty := tmp_path / "empty").mkdir()
    first = Prepared("ssl", folder=empty).certificates
    assert first is not None
    before = first.server.read_bytes()
    again = Prepared("ssl", folder=empty).certificates
    assert again is not None
    assert before == again.server.read_bytes()
