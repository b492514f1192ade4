"""These tests build programs and packages."""

from tests.clients.building import builds_are_told

__all__ = ["builds_are_told"]
