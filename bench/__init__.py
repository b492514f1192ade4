"""Measurements of Odradek beside its peers; see README.md."""

__all__: list[str] = []
