"""The store: the database of everything that is known about each cluster.

Imported by `spark_jobs`, which writes most of it, and by the service's surfaces, which read it and write API keys,
mutes, acknowledgements and the audit.
"""
