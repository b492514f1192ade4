"""For tests: a cluster in this process, and pytest fixtures (`kafka_cluster`, `kafka_bootstrap`).

The names are imported at their first use: pytest loads the plugin of this package in every run, even if no test uses a
cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.testing.names import (
        ApiKey,
        Armed,
        Cluster,
        DataDirWarning,
        Rule,
        RuleError,
        Snapshot,
        StartTopic,
        rule,
    )

__all__ = ["ApiKey", "Armed", "Cluster", "DataDirWarning", "Rule", "RuleError", "Snapshot", "StartTopic", "rule"]

# A type checker reads the import above, and finds mistyped names.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from odradek.testing import names

        globals().update({each: names.__dict__[each] for each in __all__})
        return names.__dict__[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
