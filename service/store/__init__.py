"""What is known of each cluster, in SQLite or PostgreSQL: how it is opened, leased, migrated, written and read.

Imported by `spark_jobs`, which writes it, and by the service's surfaces, which read it.
"""
