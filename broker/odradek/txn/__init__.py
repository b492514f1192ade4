"""Transactions (KIP-98, KIP-360, KIP-890): the coordinator, and the verifications of partition leaders."""

__all__: list[str] = []
