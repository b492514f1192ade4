"""Limits of clients: how much was used, and how long a client beyond its limit must wait.

KIP-13 and KIP-55 limit bytes, KIP-124 the time of requests, KIP-599 changes of topics, KIP-612 connections; KIP-219
says how a client is made to wait.
"""
