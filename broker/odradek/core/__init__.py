"""What every machine and every room may use."""
