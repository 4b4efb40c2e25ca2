"""Kafka's bytes: record batches, compression, keys and values of the internal topics, as columns or one by one. Pure.

Imported where bytes arrive: `service.kafka`, `spark_jobs`, `txnscope inspect`.
"""
