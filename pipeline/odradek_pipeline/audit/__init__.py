"""What every audit has: problems and anomalies as its result, tables, progress."""
