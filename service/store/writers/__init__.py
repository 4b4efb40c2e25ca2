"""Writes to the store under the cluster's lease: what was read of the cluster (exactly once), findings, consumer
groups, and the applications of ids.

Imported by `spark_jobs`. The service's own writes are in modules of `service.store`: some need no lease (audit, keys,
mutes), others need a lease of their own (canary, receivers, telemetry).
"""
