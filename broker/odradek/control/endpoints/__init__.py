"""The calls of the hub, one module for each family, and their table."""
