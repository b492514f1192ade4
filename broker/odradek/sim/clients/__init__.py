"""The clients of a run, each as a script: producers, consumers, members of groups, admins."""
