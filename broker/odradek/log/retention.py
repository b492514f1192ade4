"""Retention: drops segments at the beginning of a log by age and size (`retention.ms`, `retention.bytes`)."""

from __future__ import annotations

from odradek.log.log import Log

__all__ = ["retain"]


def retain(log: Log, now: int) -> None:
    """Drop the segments that retention does not keep; whole ones only, the active one too if all of it is too old."""
    if log.config.deletes:
        log.advance_start(_kept_by_time(log, now))
        log.advance_start(_kept_by_size(log))


def _kept_by_time(log: Log, now: int) -> int:
    """The log start by `retention.ms` alone: a segment is deleted when its newest record is too old."""
    retention_ms = log.config.retention_ms
    start = log.start_offset
    if retention_ms < 0:
        return start
    for segment in log.segments:
        if now - segment.youngest <= retention_ms:
            break
        start = segment.next_offset
    return start


def _kept_by_size(log: Log) -> int:
    """The log start by `retention.bytes` alone: the rest is never smaller than the limit."""
    retention_bytes = log.config.retention_bytes
    start = log.start_offset
    if retention_bytes < 0:
        return start
    excess = log.size_bytes - retention_bytes
    for segment in log.segments:
        excess -= segment.size
        if excess < 0:
            break
        start = segment.next_offset
    return start
