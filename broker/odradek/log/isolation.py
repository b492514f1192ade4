"""Isolation levels of readers: with or without what has not been committed (KIP-98)."""

from __future__ import annotations

__all__ = ["ISOLATION_LEVELS", "READ_COMMITTED"]

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
ISOLATION_LEVELS = (READ_UNCOMMITTED, READ_COMMITTED)
"""All there are: Kafka fails with requests that name another one."""
