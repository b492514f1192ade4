"""`python -m odradek` is the command `odradek`."""

from odradek.cli import main

main()
