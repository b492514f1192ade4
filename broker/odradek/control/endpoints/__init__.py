"""What the hub answers, family by family, and the table of it."""
