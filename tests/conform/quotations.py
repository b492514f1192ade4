"""Looks the quotations of the scenarios up in the texts of the KIPs.

`python -m tests.conform.quotations FOLDER` reads FOLDER/kip-890.txt and the like, and writes down in quotations.txt
which quotations stand there word for word. The tests, which have no such folder, hold the scenarios against that list.
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

from odradek.conform.scenario import Basis, Scenario, load

__all__ = ["FOUND", "digest", "quoted"]

FOUND = Path(__file__).with_name("quotations.txt")
OF_ANOTHER_KIP = re.compile(r"KIP-(\d+), ")


def quoted() -> list[Scenario]:
    """Those whose sentence stands in a KIP."""
    return [each for each in load() if each.basis is Basis.QUOTED]


def kip_of(scenario: Scenario) -> int:
    """The KIP that is quoted: another one than the scenario's, where its section begins with one."""
    other = OF_ANOTHER_KIP.match(scenario.section or "")
    return int(other[1]) if other else scenario.kip


def digest(scenario: Scenario) -> str:
    """A line of the list: KIP, and a hash of the sentence."""
    return f"KIP-{kip_of(scenario)} {hashlib.sha256((scenario.says or '').encode()).hexdigest()[:32]}"


def main() -> None:
    """Write the list, or say which sentences do not stand in their KIPs."""
    folder, wrong = Path(sys.argv[1]), []
    for scenario in quoted():
        text = (folder / f"kip-{kip_of(scenario)}.txt").read_text(encoding="utf-8")
        section = OF_ANOTHER_KIP.sub("", scenario.section or "")
        if (scenario.says or "") not in " ".join(text.split()):
            wrong.append(f"{scenario.id}: KIP-{kip_of(scenario)} does not say {scenario.says!r}")
        if not re.search(rf"^\W*{re.escape(section)}\W*$", text, re.MULTILINE):
            wrong.append(f"{scenario.id}: KIP-{kip_of(scenario)} has no section {section!r}")
    if wrong:
        raise SystemExit("\n".join(wrong))
    lines = sorted({digest(each) for each in quoted()})
    FOUND.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{len(lines)} quotations stand in their KIPs")


if __name__ == "__main__":
    main()
