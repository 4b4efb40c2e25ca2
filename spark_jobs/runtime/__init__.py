"""Keeps the application alive: Spark's session and processes, jobs under one lease, liveness, the watchdog.

Knows nothing of transactions. Imported by the rest of `spark_jobs`; the demo imports `java`.
"""
