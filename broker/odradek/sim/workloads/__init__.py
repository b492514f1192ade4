"""Workloads: the tables that schedules are drawn from, and the drawing of a schedule from a seed."""
