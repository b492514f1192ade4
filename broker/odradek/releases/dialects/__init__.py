"""Dialects: texts of KIPs that differ from Kafka, as folders with which a broker can be started (`docs/dialects.md`).

Each folder below this one is a dialect that comes with Odradek; the modules make a release of a folder.
"""
