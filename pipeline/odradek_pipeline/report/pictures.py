"""The pictures of a report, each as inline SVG; one that has no data is left out."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

__all__ = ["lso_lag", "pictures_of", "standing_alone"]

_COLOURS = {
    "commit": "#1a7f37",
    "abort": "#bf8700",
    "open": "#b00020",
    "dropped": "#b00020",
    "accepted": "#1a7f37",
    "refused": "#b00020",
}
_ALONE = (
    "svg{color:#1f2933}text{fill:currentColor}.page{fill:#ffffff}"
    "@media (prefers-color-scheme:dark){svg{color:#e4e9f0}.page{fill:#11161d}"
    'text[style*="#b00020"]{fill:#ff8a80!important}path[style*="stroke: #0969da"]{stroke:#6db3f2!important}}'
)
_NS, _MS = 1e9, 1e6
TELLING = 20
"""Of fewer transactions, verifications or polls a picture tells nothing that a table or a sentence does not."""
SECONDS_TELLING = 5
"""Of fewer seconds a throughput is one number."""


def _read(audit: Path, name: str) -> pd.DataFrame | None:
    path = audit / f"{name}.parquet"
    if not path.exists():
        return None
    frame = pd.read_parquet(path)
    return frame if len(frame) else None


def _figure(title: str, x: str, y: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    if y != "ms":
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    return figure, axes


def _svg(figure: Figure) -> str:
    out = StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "odradek", "font.family": "sans-serif"}):
        figure.savefig(out, format="svg", metadata={"Date": None}, transparent=True)
    text = out.getvalue()
    # Ink is that of the page, which may be dark.
    return text[text.index("<svg") :].replace("#000000", "currentColor")


def standing_alone(picture: str) -> str:
    """A picture as a file of its own, for pages that have no ink for it: light or dark as its reader's system is."""
    head, rest = picture.split(">", 1)
    return f'{head}><style>{_ALONE}</style><rect class="page" width="100%" height="100%"/>{rest}'


def _start(audit: Path) -> int:
    """All pictures of one event log have the same zero."""
    starts = []
    for name, column in (("lso", "ts_ns"), ("stalls", "begin_ns"), ("txn_states", "ts_ns")):
        frame = _read(audit, name)
        if frame is not None:
            starts.append(int(frame[column].min()))
    return min(starts, default=0)


def lso_lag(audit: Path) -> str | None:
    """High watermark and last stable offset of each partition; stalls shaded, with their holder's name."""
    lso, stalls = _read(audit, "lso"), _read(audit, "stalls")
    if lso is None or stalls is None:
        return None
    zero = _start(audit)
    figure, axes = _figure("Last stable offset, and who holds it", "seconds", "offset")
    names = [
        (topic, partition)
        for topic, partition in lso[["topic", "partition"]].drop_duplicates().itertuples(index=False)
        if not topic.startswith("__")
    ]
    for at in names[:6]:
        rows = lso[(lso["topic"] == at[0]) & (lso["partition"] == at[1])]
        held = stalls[(stalls["topic"] == at[0]) & (stalls["partition"] == at[1])]
        end = max(rows["ts_ns"].max(), held["end_ns"].max() if len(held) else 0)
        seconds = [*((rows["ts_ns"] - zero) / _NS), (end - zero) / _NS]
        axes.step(
            seconds,
            [*rows["lso"], rows["lso"].iloc[-1]],
            where="post",
            label=f"last stable offset of {at[0]}-{at[1]}",
            color="#0969da",
        )
        axes.step(
            seconds,
            [*rows["hw"], rows["hw"].iloc[-1]],
            where="post",
            label=f"high watermark of {at[0]}-{at[1]}",
            color="#8c959f",
            linestyle=":",
        )
        for stall in held.to_dict("records"):
            bad = bool(stall["open_at_end"])
            begin, finish = (stall["begin_ns"] - zero) / _NS, (stall["end_ns"] - zero) / _NS
            axes.axvspan(begin, finish, color="#b00020" if bad else "#bf8700", alpha=0.25 if bad else 0.12, linewidth=0)
            if bad:
                axes.annotate(
                    f"held by {stall['transactional_id']}",
                    ((begin + finish) / 2, stall["lso"]),
                    ha="center",
                    va="bottom",
                    color="#b00020",
                    fontsize=9,
                )
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    return _svg(figure)


def durations(audit: Path) -> str | None:
    """Durations of transactions by their outcome."""
    events, logs = _read(audit, "txn_durations"), _read(audit, "log_txns")
    if events is not None:
        frame = pd.DataFrame({"outcome": events["outcome"], "ms": (events["end_ns"] - events["begin_ns"]) / _MS})
    elif logs is not None and (logs["marker_offset"] >= 0).any():
        ended = logs[(logs["marker_offset"] >= 0) & (logs["batches"] > 0)]
        frame = pd.DataFrame(
            {"outcome": ended["outcome"], "ms": (ended["marker_timestamp"] - ended["first_timestamp"]).clip(lower=0)}
        )
    else:
        return None
    if len(frame) < TELLING or frame["ms"].nunique() < 2:
        return None
    figure, axes = _figure("Transaction durations by outcome", "ms", "transactions")
    groups = [(str(outcome), rows["ms"]) for outcome, rows in frame.groupby("outcome")]
    axes.hist(
        [rows for _, rows in groups],
        bins=30,
        stacked=True,
        label=[name for name, _ in groups],
        color=[_COLOURS.get(name, "#888") for name, _ in groups],
    )
    axes.legend(frameon=False, fontsize=8)
    return _svg(figure)


def verification(audit: Path) -> str | None:
    """How long verifications took (KIP-890)."""
    frame = _read(audit, "verification")
    if frame is None or len(frame) < TELLING:
        return None
    zero = _start(audit)
    figure, axes = _figure("Verification: latency and verdict", "seconds", "ms")
    for verdict, rows in frame.groupby("verdict"):
        axes.scatter(
            (rows["ts_ns"] - zero) / _NS,
            rows["duration_ns"] / _MS,
            s=14,
            label=str(verdict),
            color=_COLOURS.get(str(verdict), "#888"),
        )
    axes.legend(frameon=False, fontsize=8)
    return _svg(figure)


def throughput(audit: Path) -> str | None:
    """Transactions that ended, per second; what happened to brokers as bars."""
    frame = _read(audit, "txn_durations")
    if frame is None:
        return None
    zero = _start(audit)
    seconds = ((frame["end_ns"] - zero) / _NS).astype(int)
    if seconds.max() - seconds.min() < SECONDS_TELLING:
        return None
    figure, axes = _figure("Throughput, with faults as bars", "seconds", "transactions per second")
    counts = seconds.value_counts().sort_index()
    axes.bar(counts.index + 0.5, counts.to_numpy(), width=0.9, color="#0969da")
    faults = _read(audit, "faults")
    for fault in faults.to_dict("records") if faults is not None else ():
        axes.axvline((fault["ts_ns"] - zero) / _NS, color="#b00020", linewidth=2, alpha=0.5)
    return _svg(figure)


def unseen_and_lag(audit: Path) -> str | None:
    """What was acknowledged and not polled yet, and how far polls were behind."""
    unseen, lag = _read(audit, "unseen"), _read(audit, "lag")
    if sum(len(frame) for frame in (unseen, lag) if frame is not None) < TELLING:
        return None
    figure, axes = _figure("Unseen values and lag over time", "time of the history", "values")
    if unseen is not None:
        axes.step(unseen["time"], unseen["unseen"], where="post", label="unseen", color="#b00020")
    if lag is not None:
        axes.plot(lag["time"], lag["lag"], ".", label="lag of a poll", color="#0969da", markersize=4)
    axes.legend(frameon=False, fontsize=8)
    return _svg(figure)


_ALL: tuple[Callable[[Path], str | None], ...] = (
    lso_lag,
    durations,
    verification,
    throughput,
    unseen_and_lag,
)


def pictures_of(audit: Path) -> list[str]:
    """Those for which the audit has data. What names contain is text, not mathematics."""
    with mpl.rc_context({"text.parse_math": False}):
        return [svg for draw in _ALL if (svg := draw(audit)) is not None]
