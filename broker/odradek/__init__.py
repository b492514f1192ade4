"""Odradek: a Kafka broker stub that runs the real transaction machinery."""

__all__ = ["__version__"]

__version__ = "0.1.0"
