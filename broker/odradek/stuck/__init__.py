"""Sentences about what is stuck, made of plain facts: the hub, a failing test and `odradek watch` say the same."""
