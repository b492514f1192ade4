"""The figures as Markdown tables, Odradek's column first and its ratio to each peer behind."""

from collections.abc import Mapping

__all__ = ["print_codec", "print_table"]

OURS = "odradek"
RATIOS = [
    (OURS, "kafka"),
    (OURS, "kfake"),
    ("odradek-tls", "kafka-tls"),
    ("odradek-tls", OURS),
    ("kafka-tls", "kafka"),
    (OURS, "before"),
]


def shown(value: float | None) -> str:
    if value is None:
        return ""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def ratio(ours: float | None, theirs: float | None) -> str:
    return f"{ours / theirs:.2f}" if ours is not None and theirs else ""


def rows(columns: list[str], lines: list[list[str]]) -> None:
    print("| " + " | ".join(columns) + " |")
    print("| --- |" + " ---: |" * (len(columns) - 1))
    for line in lines:
        print("| " + " | ".join(line) + " |")
    print()


def print_table(medians: Mapping[str, Mapping[str, float]]) -> None:
    """Measures with the same peers share a table."""
    tables: dict[tuple[str, ...], list[str]] = {}
    for title, of in medians.items():
        tables.setdefault(tuple(of), []).append(title)
    for peers, titles in tables.items():
        against = [(one, other) for one, other in RATIOS if one in peers and other in peers]
        lines = [
            [title]
            + [shown(medians[title][peer]) for peer in peers]
            + [ratio(medians[title][one], medians[title][other]) for one, other in against]
            for title in titles
        ]
        rows(["measure", *peers, *[f"{one} / {other}" for one, other in against]], lines)


def print_codec(times: Mapping[str, Mapping[str, float]]) -> None:
    """Microseconds per message; the ratios say how many times longer the others take."""
    if not times:
        return
    names = list(next(iter(times.values())))
    others = [name for name in names if name != OURS]
    lines = [
        [title] + [shown(of[name]) for name in names] + [ratio(of[name], of[OURS]) for name in others]
        for title, of in times.items()
    ]
    rows(["us a message", *names, *[f"{name} / {OURS}" for name in others]], lines)
