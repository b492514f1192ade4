"""The metrics that clients push (KIP-714): subscriptions, intervals, and the sink."""
