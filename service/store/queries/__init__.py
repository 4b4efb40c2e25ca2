"""Reads the store. Every function takes a connection, so that one transaction shows one state. Reads of large tables
follow an index, and end at a limit or only count.

Imported by the service, by `spark_jobs`, and by the modules of the store that need stored rows.
"""
