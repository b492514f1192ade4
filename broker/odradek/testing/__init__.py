"""For tests: a cluster in this process, and pytest fixtures (`kafka_cluster`, `kafka_bootstrap`).

The names are imported by the first who asks for one: pytest loads the plugin of this package in every run, whether a
test uses a cluster or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.testing.names import ApiKey, Armed, Cluster, Rule, RuleError, StartTopic, rule

__all__ = ["ApiKey", "Armed", "Cluster", "Rule", "RuleError", "StartTopic", "rule"]

# A type checker reads the import above, and is to find what is mistyped.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from odradek.testing import names

        globals().update({each: names.__dict__[each] for each in __all__})
        return names.__dict__[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
