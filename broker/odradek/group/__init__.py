"""Consumer groups and their committed offsets: the machine over one partition of `__consumer_offsets`.

The classic protocol is here; the consumer protocol of KIP-848 will stand beside it.
"""
