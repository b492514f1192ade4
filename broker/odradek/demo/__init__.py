"""`odradek demo`: transactions that commit, abort and crash, a consumer that watches, and a verdict (docs/demo.md)."""
