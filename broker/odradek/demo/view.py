"""The board on a terminal, or as lines without one, and the summary."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.bar import Bar
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from odradek.core.wording import counted
from odradek.demo.board import Board
from odradek.demo.judge import Kind, Verdict
from odradek.demo.log import Marks

__all__ = ["Screen", "live_view", "summary"]

LINE_EVERY_S = 1.0
BAR_WIDTH = 24
Show = Callable[[Board, str], None]


class Screen(Console):
    """A console that leaves a closed output pipe to the command."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


@contextmanager
def live_view(console: Console, *, seconds: float) -> Iterator[Show]:
    """The function that shows the board: as a picture that is redrawn, or as a line each second."""
    if not console.is_terminal:
        yield _Lines(console)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield lambda board, act: live.update(picture(board, act, seconds), refresh=True)


class _Lines:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._next = 0.0

    def __call__(self, board: Board, act: str) -> None:
        if board.seconds >= self._next:
            self._next = board.seconds + LINE_EVERY_S
            self._console.print(line(board, act), soft_wrap=True, markup=False, highlight=False)


def line(board: Board, act: str) -> str:
    """The board in one line."""
    transactions, records = board.rates
    ledger = board.ledger
    return (
        f"{board.seconds:5.1f} s {act}: committed={ledger.committed} aborted={ledger.aborted} open={ledger.open} "
        f"crashes={board.crashes} records={len(board.seen)} lso_behind={board.behind} "
        f"parked={_metric(board, 'purgatory_size')} verified={_metric(board, 'verifications_total')} "
        f"errors={board.errors} tx/s={transactions:.0f} records/s={records:.0f}"
    )


def picture(board: Board, act: str, seconds: float) -> RenderableType:
    """The board as panels."""
    left = max(0.0, seconds - board.seconds)
    title = f"[bold]odradek demo[/bold]  {act}, {left:.0f} s to go" if act == "playing" else f"odradek demo  {act}"
    panels = Columns([_transactions(board), _broker(board), _consumer(board)], padding=(0, 1))
    parts: list[RenderableType] = [Text.from_markup(title), panels, _partitions(board)]
    if board.troubles:
        parts.append(Panel("\n".join(board.troubles), title="last errors", title_align="left", border_style="red"))
    return Group(*parts)


def _panel(title: str, rows: dict[str, object]) -> Panel:
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right", min_width=6)
    for name, value in rows.items():
        table.add_row(name, f"{value:,}" if isinstance(value, int) else str(value))
    return Panel(table, title=title, title_align="left", expand=False)


def _transactions(board: Board) -> Panel:
    ledger = board.ledger
    return _panel(
        "producers",
        {
            "committed": ledger.committed,
            "aborted": ledger.aborted,
            "open": ledger.open,
            "crashes": board.crashes,
            "cut off by them": ledger.cut_off,
            "transactions/s": f"{board.rates[0]:.0f}",
        },
    )


def _broker(board: Board) -> Panel:
    return _panel(
        "brokers",
        {
            "CompleteCommit": board.events["CompleteCommit"],
            "CompleteAbort": board.events["CompleteAbort"],
            "ongoing": board.ongoing,
            "fenced": board.events["fenced"],
            "parked requests": f"{_metric(board, 'purgatory_size')} (max {board.parked_max})",
            "verifications": _metric(board, "verifications_total"),
        },
    )


def _consumer(board: Board) -> Panel:
    return _panel(
        "consumer",
        {
            "records read": len(board.seen),
            "records/s": f"{board.rates[1]:.0f}",
            "looked wrong": len(board.noticed),
            "LSO behind, max": board.behind_max,
            "requests": _metric(board, "requests_total"),
            "errors": board.errors,
        },
    )


def _partitions(board: Board) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("partition", "read up to", "last stable offset", "high watermark"):
        table.add_column(name, justify="right")
    table.add_column("behind")
    for partition, marks in board.marks.items():
        table.add_row(*_row(partition, marks, board.read_up_to.get(partition, 0)))
    return table


def _row(partition: int, marks: Marks, read: int) -> Iterator[RenderableType]:
    behind = marks.high_watermark - marks.last_stable_offset
    yield from (str(partition), f"{read:,}", f"{marks.last_stable_offset:,}", f"{marks.high_watermark:,}")
    yield Bar(BAR_WIDTH, 0, min(behind, BAR_WIDTH), width=BAR_WIDTH, color="yellow") if behind else Text("")


def _metric(board: Board, name: str) -> int:
    return int(board.metrics.get(name, 0))


def _unheard(transactions: int) -> str:
    """A note about aborted transactions that no broker has seen: they ended before their first record was sent."""
    them = "it" if transactions == 1 else "them"
    return f" ({transactions} aborted before a broker heard of {them})" if transactions > 0 else ""


def summary(board: Board, verdict: Verdict) -> Iterator[str]:
    """The summary as lines: the counts, and whether exactly-once held."""
    ledger = board.ledger
    crashes = counted(board.crashes, "crash", "crashes")
    yield f"{board.seconds:.1f} s, {crashes}, {counted(board.restarts, 'restart')}, {counted(board.errors, 'error')}"
    yield (
        f"transactions: {verdict.committed} committed, {verdict.not_committed} aborted "
        f"({ledger.aborted} by their producers, {verdict.not_committed - ledger.aborted} after a crash)"
    )
    if verdict.unknown_committed or verdict.unknown_aborted:
        yield (
            f"crashed in the commit: {verdict.unknown_committed} committed and {verdict.unknown_aborted} not, "
            "as the log shows"
        )
    yield (
        f"records: {verdict.records_committed} committed and {verdict.records_aborted} aborted in the log, "
        f"{verdict.records_read} read"
    )
    unheard = verdict.not_committed - board.events["CompleteAbort"]
    yield (
        f"brokers: CompleteCommit {board.events['CompleteCommit']}, CompleteAbort {board.events['CompleteAbort']}"
        f"{_unheard(unheard)}, {counted(_metric(board, 'verifications_total'), 'verification')}, "
        f"at most {counted(board.parked_max, 'parked request')}, "
        f"LSO at most {counted(board.behind_max, 'offset')} behind"
    )
    for trouble in board.troubles:
        yield f"error: {trouble}"
    if verdict.held:
        yield "Exactly-once held: every committed transaction was read once and whole, and nothing else was."
        return
    if verdict.violations.keys() == {Kind.NOTHING}:
        yield "Nothing was shown: no transaction was committed, so that exactly-once could neither hold nor break."
        return
    yield "EXACTLY-ONCE DID NOT HOLD:"
    for kind, (count, examples) in sorted(verdict.violations.items(), key=lambda found: list(Kind).index(found[0])):
        yield f"  {kind.told(count)}" + (f", for example {'; '.join(examples)}" if examples else "")
