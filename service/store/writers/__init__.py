"""Writes the store: what was read of the cluster, exactly once and under the lease; findings; groups.

Imported by `spark_jobs`; the service itself only reads.
"""
