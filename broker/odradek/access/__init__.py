"""Permissions: what an endpoint needs of whoever asks."""
