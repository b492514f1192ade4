"""The metrics that clients push (KIP-714): who is asked for which, how often, and where they go."""
