"""Checks of a run: requests and answers, records and events, each held against a promise."""
