"""KIP-609 as its draft stands."""
