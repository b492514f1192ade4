"""`python -m tests.conform.drivers FAMILY [RELEASE]` becomes the driver of that family, built the first time."""

import os
import sys

from tests.clients.toolchain import BuildFailed, MissingToolchain
from tests.conform.drivers.families import FAMILIES, command


def main(arguments: list[str]) -> None:
    if not arguments or arguments[0] not in FAMILIES or len(arguments) > 2:
        sys.exit(f"Name a family and, if you like, a release of it: {', '.join(FAMILIES)}.")
    try:
        line = command(*arguments)
    except (BuildFailed, MissingToolchain) as error:
        sys.exit(f"No driver for {' '.join(arguments)}: {error}")
    os.execvp(line[0], line)


main(sys.argv[1:])
