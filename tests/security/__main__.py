"""Record what the real broker answers: `python -m tests.security [NAME…]`; without names, everything."""

from __future__ import annotations

import json
import sys

from tests.security.brokers import RECORDED, real, stores_of_a_real_one
from tests.security.playing import BOOKS, play_book

STORES = "stores"
"""Certificates that change, which are stories of a broker of their own."""


def main() -> None:
    wanted = sys.argv[1:] or [*BOOKS, STORES]
    if STORES in wanted:
        keep(STORES, stores_of_a_real_one())
    if not set(wanted) & BOOKS.keys():
        return
    with real() as addresses:
        for name in wanted:
            if name in BOOKS:
                keep(name, play_book(BOOKS[name], addresses))


def keep(name: str, told: dict[str, list[str]]) -> None:
    (RECORDED / f"{name}.json").write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    print(f"recorded {len(told)} stories of {name}")


if __name__ == "__main__":
    main()
