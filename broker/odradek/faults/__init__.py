"""Rules: what is to happen to which requests, as data, and what each has seen.

`model` is the data, `carried` says which ids a request carries, `refusals` answers with any error, `armed` counts and
decides. A node consults them in `faults/interception.py`.
"""
