"""Sentences about stuck partitions and transactions, shared by the hub, failing tests and `odradek watch`."""
