"""KIP-360 as its text stands."""
