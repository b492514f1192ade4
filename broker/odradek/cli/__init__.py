"""The command `odradek`: its words, its options, and how it speaks to people."""
