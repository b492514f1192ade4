"""Consumer groups and their committed offsets: the machine over one partition of `__consumer_offsets`.

The classic protocol is here; groups of the consumer protocol (KIP-848) are in `group.consumer`.
"""
