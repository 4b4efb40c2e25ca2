"""Converts rows of the tables to values and back, for queries and writers. Pure except for the database's dialect.

Imported by `store.queries` and `store.writers`.
"""
