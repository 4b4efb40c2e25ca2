"""Stores what is known of each cluster, in a database: opens, leases, migrates, writes and reads the
database.

Imported by `spark_jobs`, which writes it, and by the service's surfaces, which read it.
"""
