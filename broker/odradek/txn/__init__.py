"""Transactions (KIP-98, KIP-360, KIP-890): the coordinator, and what a leader asks it."""

__all__: list[str] = []
