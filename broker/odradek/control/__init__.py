"""Control of clusters from outside Python: the hub over HTTP, and plans of rules as YAML or JSON."""
