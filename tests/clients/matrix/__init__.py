"""The compatibility matrix: every client program against every kind of broker; see tests/clients/README.md."""
