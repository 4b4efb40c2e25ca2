"""Converts rows of the tables to values and back, for queries and writers. Pure except for JSON as the driver takes it.

Imported by `store.queries` and `store.writers`.
"""
