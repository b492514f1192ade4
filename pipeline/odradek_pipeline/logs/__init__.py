"""Segments and the files beside them, on a disk or in a store, as tables of headers; without Spark."""
