"""Folds what workers read into few facts, and converts facts into Arrow rows and back. Pure: no Spark, no network, no
clock.

Imported by `spark_jobs.source` (workers) and `spark_jobs.jobs` (the driver).
"""
