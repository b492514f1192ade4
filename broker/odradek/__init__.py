"""A Kafka broker for tests: one Python process that speaks the Kafka protocol and runs the real transaction
machinery.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
