"""Transactions and producers, in batches and in the log of their coordinators (KIP-98, KIP-664, KIP-890)."""
