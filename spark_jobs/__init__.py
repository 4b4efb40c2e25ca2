"""The streaming application: three Spark queries that read Kafka into the store, and the judge that turns what is
stored into findings. `txnscope ingest` and `txnscope watch` start it as a process of its own; nothing imports it.
"""
