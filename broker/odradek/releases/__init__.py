"""The releases of Kafka, and dialects: what each serves and does differently, as overlays.

release.py   what a broker takes from its release, as one value
table.py     the releases, each as what it has in place of the next newer one
dialects/    releases that are read from folders: overlays over schemas, tables and endpoints
"""
