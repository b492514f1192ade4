"""The event log of a broker."""
