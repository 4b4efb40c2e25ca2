"""Sends all requests to brokers, including the one that writes a marker: the only package that speaks Kafka's protocol.

Imported by `spark_jobs`, by the command line, and by the routes that ask brokers (`explain`, `resolve`).
"""
