"""Findings: a schedule that breaks a promise, made small, told as a story, and written as event files."""
