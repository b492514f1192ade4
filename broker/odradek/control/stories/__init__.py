"""The situations of the KIPs, each as a plan: `odradek stories` lists them, docs/stories/ explains them."""

from __future__ import annotations

from difflib import get_close_matches
from importlib.resources import files

from odradek.control.plan import Plan, read_plan

__all__ = ["names", "read_story", "text_of"]


def names() -> list[str]:
    ends = ".yaml"
    return sorted(each.name.removesuffix(ends) for each in files(__name__).iterdir() if each.name.endswith(ends))


def text_of(name: str) -> str:
    """The plan of a story, as YAML. Raises LookupError with a sentence for an unknown story."""
    known = names()
    if name not in known:
        near = get_close_matches(name, known, 3, 0.4) or known
        raise LookupError(f"There is no story {name}: there is {', '.join(near)}.")
    return files(__name__).joinpath(f"{name}.yaml").read_text(encoding="utf-8")


def read_story(name: str) -> Plan:
    """A story. Raises LookupError for an unknown one."""
    return read_plan(text_of(name), source=f"{name}.yaml")
