"""Committed offsets of groups, plain and in transactions."""
