"""A model of transactions in diskless topics (KIP-1150, KIP-1163): small machines, and a search of all schedules."""
