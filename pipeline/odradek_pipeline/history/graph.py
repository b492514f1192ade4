"""Cycles of a directed graph: its strongly connected components of more than one node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

__all__ = ["components"]


def components(edges: Mapping[int, Set[int]]) -> list[list[int]]:
    """Tarjan's algorithm without recursion; a node with an edge to itself is no cycle here."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    path: list[int] = []
    on_path: set[int] = set()
    found: list[list[int]] = []

    def enter(node: int) -> Iterator[int]:
        index[node] = low[node] = len(index)
        path.append(node)
        on_path.add(node)
        return iter(sorted(edges.get(node, ())))

    for root in sorted(edges):
        if root in index:
            continue
        work = [(root, enter(root))]
        while work:
            node, following = work[-1]
            for successor in following:
                if successor not in index:
                    work.append((successor, enter(successor)))
                    break
                if successor in on_path:
                    low[node] = min(low[node], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = _leave(node, path, on_path)
                    if len(component) > 1:
                        found.append(component)
    return found


def _leave(node: int, path: list[int], on_path: set[int]) -> list[int]:
    at = path.index(node)
    component = path[at:]
    del path[at:]
    on_path.difference_update(component)
    return component
