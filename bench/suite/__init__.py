"""How long a suite of a hundred tests takes with real clients, on one broker after the other."""
