"""One HTML file with the page and its data, for a browser without a network.

Its style sheets and its modules are inlined. A browser loads modules by address, which parts of a file do not have, so
they become one script: each module is a function that returns its exports. The Content-Security-Policy names that
script and that style sheet by their hashes, so nothing else runs, and nothing is loaded.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Callable
from functools import cache

from odradek.page import file

__all__ = ["bundled", "document"]

POLICY = (
    "default-src 'none'; script-src '{script}'; style-src '{style}'; img-src data:; base-uri 'none'; form-action 'none'"
)
STYLE_SHEET = re.compile(r'<link rel="stylesheet" href="page/([\w-]+\.css)">')
MAIN_SCRIPT = re.compile(r'<script type="module" src="page/([\w-]+\.js)"></script>')
IMPORT = re.compile(
    r'^import\s+(?:(?P<what>\{[^}]*\}|\*\s+as\s+\w+)\s+from\s+)?"\./(?P<name>[\w-]+\.js)";?[ \t]*$', re.M
)
EXPORT = re.compile(r"^export\s+(?=(?:const|class|(?:async\s+)?function\*?)\s+(?P<name>\w+))", re.M)
EXPORTED_LIST = re.compile(r"^export\s*\{(?P<names>[^}]*)\};?[ \t]*$", re.M)
NOT_BUNDLED = re.compile(r"^(?:import|export)\b.*$|\bimport\s*\(|\bimport\.meta\b", re.M)
ENDS_A_SCRIPT = re.compile("</script|<!--", re.IGNORECASE)
ESCAPES = {ord("<"): "\\u003c", ord(">"): "\\u003e", 0x2028: "\\u2028", 0x2029: "\\u2029"}
"""In JSON these are only in strings; `</script>` or `<!--` would end or change the script that the data are in."""


def document(data: bytes) -> str:
    """The HTML file with this JSON as its data."""
    page = file("index.html").decode()
    sheets, [main] = STYLE_SHEET.findall(page), MAIN_SCRIPT.findall(page)
    style = "".join(f"\n{file(sheet).decode()}" for sheet in sheets)
    script = f"\n{bundled(main)}"
    policy = POLICY.format(script=_hash(script), style=_hash(style))
    head = f'<head>\n<meta http-equiv="Content-Security-Policy" content="{policy}">'
    inlined = f'<script type="application/json" id="data">{data.decode().translate(ESCAPES)}</script>\n'
    inlined += f'<script type="module">{script}</script>'
    page = page.replace("<head>", head, 1)
    # All style sheets become one, in the place of the first.
    page = STYLE_SHEET.sub(lambda _: f"<style>{style}</style>", page, count=1)
    page = STYLE_SHEET.sub("", page)
    return MAIN_SCRIPT.sub(lambda _: inlined, page)


def _hash(text: str) -> str:
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def bundled(main: str, read: Callable[[str], bytes] = file) -> str:
    """A script for this module; the modules that it imports come before it.

    An import or export in an unknown form is an AssertionError.
    """
    return _Bundle(read).of(main)


class _Bundle:
    """The modules as far as they have been put in order."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self._read = read
        self._parts: dict[str, str] = {}
        self._open: list[str] = []

    def of(self, main: str) -> str:
        self._add(main)
        script = "\n".join(self._parts.values())
        assert not ENDS_A_SCRIPT.search(script), "a module would end the script that it becomes a part of"
        return f"{script}\n"

    def _add(self, name: str) -> None:
        if name in self._parts:
            return
        assert name not in self._open, f"modules import each other: {' '.join([*self._open, name])}"
        self._open.append(name)
        source = self._read(name).decode()
        for found in IMPORT.finditer(source):
            self._add(found["name"])
        self._open.pop()
        self._parts[name] = _module(name, source)


def _module(name: str, source: str) -> str:
    exported = [f"{found['name']}" for found in EXPORT.finditer(source)]
    for listed in EXPORTED_LIST.finditer(source):
        exported += [_renamed(each, back=True) for each in listed["names"].split(",") if each.strip()]
    source = EXPORTED_LIST.sub("", EXPORT.sub("", IMPORT.sub(_imported, source)))
    left = NOT_BUNDLED.search(source)
    assert left is None, f"{name}: write this import or export in another way: {left and left[0]}"
    return f"const {_variable(name)} = (() => {{\n{source.strip()}\nreturn {{ {', '.join(exported)} }};\n}})();"


def _imported(found: re.Match[str]) -> str:
    what, module = found["what"], _variable(found["name"])
    if what is None:
        return ""
    if what.startswith("*"):
        return f"const {what.split()[-1]} = {module};"
    renamed = [_renamed(each) for each in what.strip("{}").split(",") if each.strip()]
    return f"const {{ {', '.join(renamed)} }} = {module};"


def _renamed(each: str, *, back: bool = False) -> str:
    """`a as b` in the words of an object; `back` in those of the object that is made."""
    old, _, new = (part.strip() for part in each.partition(" as "))
    if not new:
        return old
    return f"{new}: {old}" if back else f"{old}: {new}"


def _variable(name: str) -> str:
    """The variable with the exports of a module."""
    return "$" + re.sub(r"\W", "_", name.removesuffix(".js"))
