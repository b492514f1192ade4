"""What each API asks of its sender's permissions, and what it answers where they do not suffice."""
