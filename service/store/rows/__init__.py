"""Rows of the tables as values, and values as rows: what queries and writers share. Pure but for the dialect.

Imported by `store.queries` and `store.writers`.
"""
