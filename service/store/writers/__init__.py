"""Writes to the store under the lease: what was read of the cluster (exactly once), findings, and consumer groups.

Imported by `spark_jobs`; the service's own writes (audit, keys, mutes) need no lease.
"""
