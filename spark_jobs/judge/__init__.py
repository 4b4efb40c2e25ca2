"""Judges on a clock what the store knows, asks brokers where that decides, and keeps the findings: their only writer.

Imported by `spark_jobs.application`.
"""
