"""Folds what workers read into few facts, and converts facts into Arrow rows and back. Pure: no network, no
clock, and of Spark only the types of the rows (`rows.SCHEMA`).

Imported by `spark_jobs.source` (workers) and `spark_jobs.jobs` (the driver).
"""
