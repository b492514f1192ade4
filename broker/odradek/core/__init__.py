"""What every machine and every room may use: the contract of machines, clock, flows, timers, turns."""
