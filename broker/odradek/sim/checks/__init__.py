"""Checks of a run: its requests and responses, records and events must keep the promises."""
