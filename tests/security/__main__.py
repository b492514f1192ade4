"""Record what the real broker answers: `python -m tests.security [NAME…]`; without names, everything."""

from __future__ import annotations

import json
import sys

from tests.security.brokers import RECORDED, real
from tests.security.playing import BOOKS, play_book


def main() -> None:
    wanted = sys.argv[1:] or list(BOOKS)
    with real() as addresses:
        for name in wanted:
            told = play_book(BOOKS[name], addresses)
            (RECORDED / f"{name}.json").write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
            print(f"recorded {len(told)} stories of {name}")


if __name__ == "__main__":
    main()
