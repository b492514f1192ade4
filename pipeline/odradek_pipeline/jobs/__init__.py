"""The jobs: each reads its evidence, and writes tables, anomalies and a summary."""
