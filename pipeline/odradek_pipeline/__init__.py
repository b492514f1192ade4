"""Did exactly-once hold? Answered from log directories, client histories and the broker's events."""
