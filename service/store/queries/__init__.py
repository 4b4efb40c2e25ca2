"""Reads the store. Every function takes a connection, so that one transaction shows one state; every read is bounded
and follows an index.

Imported by the service's surfaces (api, web, metrics), by the judge, and by the writers that need stored rows.
"""
