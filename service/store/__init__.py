"""The store: the database with everything that txnscope knows about each cluster. `spark_jobs` writes most of it. The
service (`api`, `web`, `metrics`, `cli`, `notifications`) reads the store, and writes API keys, mutes, acknowledgements,
the audit and the positions of receivers.
"""
