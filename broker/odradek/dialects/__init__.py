"""Dialects: a KIP that differs from Kafka, as a folder that a broker can be started with (`docs/dialects.md`).

Each folder below this one is a dialect that comes with Odradek; the modules are what makes a broker of a folder.
"""
