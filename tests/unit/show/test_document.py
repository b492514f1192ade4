"""The page as one HTML file: its modules as one script, and a policy by which nothing else runs."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek import page
from odradek.page.document import bundled, document

CHROMIUM = shutil.which("chromium")
QUIET = ("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-sync")


def modules(**sources: str) -> Callable[[str], bytes]:
    """Modules by their names without the ending."""
    return lambda name: sources[name.removesuffix(".js")].encode()


def hash_of(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_modules_become_one_script() -> None:
    read = modules(
        main='import { a, b as c } from "./x.js";\nimport * as all from "./x.js";\nimport "./y.js";\n'
        "show(a, c, all);\n",
        x="export const a = 1;\nconst inner = 2;\nexport { inner as b };\n",
        y='import { a } from "./x.js";\nexport async function f() {}\nexport class C {}\n',
    )
    assert bundled("main.js", read) == (
        "const $x = (() => {\nconst a = 1;\nconst inner = 2;\nreturn { a, b: inner };\n})();\n"
        "const $y = (() => {\nconst { a } = $x;\nasync function f() {}\nclass C {}\nreturn { f, C };\n})();\n"
        "const $main = (() => {\nconst { a, b: c } = $x;\nconst all = $x;\n\nshow(a, c, all);\nreturn {  };\n})();\n"
    )


@pytest.mark.parametrize(
    "source",
    [
        "export default 1;",
        "export let a = 1;",
        'import a from "./x.js";',
        'import { a } from "https://example.org/x.js";',
        'export * from "./x.js";',
        'const x = await import("./x.js");',
        "const here = import.meta.url;",
        'const markup = "</SCRIPT>";',
        'import "./main.js";',
    ],
)
def test_what_would_not_work_in_one_script_is_refused(source: str) -> None:
    with pytest.raises(AssertionError):
        bundled("main.js", modules(main=source, x="export const a = 1;"))


def test_every_module_of_the_page_is_in_it() -> None:
    script = bundled("main.js")
    for name in page.names():
        if name.endswith(".js"):
            assert f"const ${name.removesuffix('.js').replace('-', '_')} = " in script


def test_its_policy_names_its_script_and_its_style() -> None:
    text = document(b'{"histories":[]}')
    [script] = re.findall(r'<script type="module">(.*?)</script>', text, re.DOTALL)
    [style] = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert f"script-src {hash_of(script)};" in text
    assert f"style-src {hash_of(style)};" in text


def test_the_same_data_make_the_same_file() -> None:
    assert document(b"{}") == document(b"{}")


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason="there is no Chromium")
def test_a_browser_runs_the_script_of_a_page(tmp_path: Path) -> None:
    """It runs with its policy, and finds its data; what is not named does not run."""
    text = document(b'{"histories":[],"difference":null,"why":null,"transaction":null}')
    text = text.replace("</body>", '<script>document.title = "unnamed"</script></body>')
    file = tmp_path / "page.html"
    file.write_text(text, encoding="utf-8")
    assert CHROMIUM is not None
    words = [CHROMIUM, "--headless", "--no-sandbox", *QUIET, f"--user-data-dir={tmp_path / 'profile'}"]
    words += ["--enable-logging=stderr", "--dump-dom", file.as_uri()]
    ended = subprocess.run(words, capture_output=True, timeout=60, check=True)
    told = [each for each in ended.stderr.decode().splitlines() if "CONSOLE" in each]
    assert len([each for each in told if "Content Security Policy" in each]) == 1, told
    assert "<title>unnamed" not in ended.stdout.decode()
