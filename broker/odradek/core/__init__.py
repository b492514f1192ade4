"""Shared by all machines and rooms: the contract of machines, clock, flows, timers, turns."""
