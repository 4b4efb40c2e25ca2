"""Converts rows of the tables to values and back, for queries and writers. Pure, except that the database's driver
encodes JSON.

Imported by `store.queries` and `store.writers`.
"""
