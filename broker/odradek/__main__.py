"""`python -m odradek` is the command `odradek`."""

from odradek.cli.main import main

main()
