"""Consumer groups: the machine over one partition of `__consumer_offsets`.

It knows the groups of all protocols; each newer protocol has a folder of its own, and so have the offsets.
"""
