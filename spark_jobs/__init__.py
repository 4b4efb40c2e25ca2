"""The streaming application: three Spark queries that read Kafka into the store, and the judge that makes findings of
the stored data. `txnscope ingest` and `txnscope watch` start it as a process of its own; the service does not import
it."""
