"""Stores what is known of each cluster, in SQLite or PostgreSQL: opens, leases, migrates, writes and reads the
database.

Imported by `spark_jobs`, which writes it, and by the service's surfaces, which read it.
"""
