"""Every question that a broker is asked, and the one marker that is written: the only room that speaks Kafka.

Imported by `spark_jobs`, by the command line, and by the routes that look at brokers (`explain`, `resolve`).
"""
