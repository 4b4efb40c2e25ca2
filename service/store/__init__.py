"""The store: the database with everything that txnscope knows about each cluster. `spark_jobs` writes most of it. The
service reads the store, and writes API keys, mutes, acknowledgements, the audit, the canary's rounds, and the positions
of receivers and of the export by OTLP.
"""
