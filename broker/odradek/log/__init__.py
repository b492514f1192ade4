"""One partition: its log, its producers and their transactions, and the contract of the machines over it."""
