"""Control from outside Python: plans of rules, as YAML or JSON."""
