"""Decodes Kafka's bytes: record batches, compression, keys and values of internal topics, as columns or one by one.

Pure functions without I/O. Imported where bytes arrive: `service.kafka`, `spark_jobs`, `txnscope inspect`.
"""
