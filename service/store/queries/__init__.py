"""Reads the store: every function takes a connection, so that one transaction shows one state. Bounded, by index.

Imported by the service's surfaces (api, web, metrics), by the judge, and by the writers where they go on from a row.
"""
