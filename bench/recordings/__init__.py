"""Runs of real clients, recorded and played again."""
