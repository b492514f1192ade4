"""Schedules: what clients do and what goes wrong in a run, as data; the faults of requests; and the nemesis."""
