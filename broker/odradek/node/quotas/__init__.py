"""What the limits of clients do: how much was used, for how long who is beyond must wait (KIP-13, 124, 219, 599, 612)."""
