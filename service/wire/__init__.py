"""Decodes Kafka's bytes: record batches, compressed records, and keys and values of internal topics, as columns or one
by one.

Pure functions without I/O.
"""
