"""Spark's DataSources. Planner processes decide what a micro-batch reads; workers read it. The package uses neither the
store nor the web pages.

Imported by `spark_jobs.jobs`, `spark_jobs.first_read`, `spark_jobs.judge` and `spark_jobs.settings`, and by Spark's own
Python processes under the names in `runtime.fork_server`.
"""
