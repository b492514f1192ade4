"""The command `odradek`: subcommands, options, and messages for the person at the terminal."""
