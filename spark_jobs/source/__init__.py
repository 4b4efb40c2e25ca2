"""Spark's DataSources: plan what a micro-batch reads (in planner processes), read it (in workers). No store, no web.

Imported by `spark_jobs.jobs`, by `spark_jobs.judge` and `spark_jobs.settings` (for the topics to watch), and by Spark's
own Python processes under the names in `runtime.fork_server`.
"""
