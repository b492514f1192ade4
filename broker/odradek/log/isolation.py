"""Isolation levels of readers: with or without uncommitted records (KIP-98)."""

from __future__ import annotations

__all__ = ["ISOLATION_LEVELS", "READ_COMMITTED"]

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
ISOLATION_LEVELS = (READ_UNCOMMITTED, READ_COMMITTED)
"""All levels: Kafka refuses requests with any other one."""
