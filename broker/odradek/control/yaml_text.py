"""YAML text as data, with the place of each part."""

from __future__ import annotations

from collections.abc import Callable

import yaml

__all__ = ["read_yaml"]

Steps = tuple[str | int, ...]
Position = tuple[int, int]
Refuse = Callable[[Steps, str, Position], Exception]
"""Creates the error for a part, a reason, and a line and column."""

PARTS_MAX = 50_000
"""A plan with more parts is refused, also if aliases make them."""


def read_yaml(text: str, refuse: Refuse) -> tuple[object, dict[Steps, Position]]:
    """The data of a text, and the line and column, from 1, of each part of it."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is None:
            raise refuse((), "It is empty.", (1, 1))
        reading = _Reading(refuse)
        return reading.data(node, ()), reading.positions
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = (1, 1) if mark is None else (mark.line + 1, mark.column + 1)
        raise refuse((), f"This is no YAML: {error.problem or error.context}.", where) from None
    except yaml.reader.ReaderError as error:
        raise refuse((), f"This is no YAML: {error.reason}.", (1, 1)) from None
    except RecursionError:
        raise refuse((), "It is nested too deeply.", (1, 1)) from None


class _Reading:
    def __init__(self, refuse: Refuse) -> None:
        self.positions: dict[Steps, Position] = {}
        self._refuse = refuse
        self._constructor = yaml.constructor.SafeConstructor()

    def data(self, node: yaml.Node, steps: Steps) -> object:
        self.positions[steps] = _position(node)
        if len(self.positions) > PARTS_MAX:
            raise self._refuse(steps, f"It has more than {PARTS_MAX} parts.", _position(node))
        if isinstance(node, yaml.SequenceNode):
            return [self.data(each, (*steps, index)) for index, each in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, steps)
        return self._constructor.construct_object(node, deep=True)

    def _mapping(self, node: yaml.MappingNode, steps: Steps) -> dict[str, object]:
        found: dict[str, object] = {}
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else ""
            if not isinstance(key, yaml.ScalarNode) or not isinstance(name, str):
                raise self._refuse(steps, "A field has a name.", _position(key))
            if name in found:
                raise self._refuse((*steps, name), f"The field {name} stands here twice.", _position(key))
            found[name] = self.data(value, (*steps, name))
            if not isinstance(value, yaml.ScalarNode):
                self.positions[*steps, name] = _position(key)
        return found


def _position(node: yaml.Node) -> Position:
    return node.start_mark.line + 1, node.start_mark.column + 1
