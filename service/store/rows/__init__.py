"""Converts rows of the tables to values and back, for queries and writers. Pure, except that the database's driver
encodes JSON.

The conversions are for `store.queries`, `store.writers` and `store.finding_events`; views, pages and REST use the class
`IdRow`.
"""
