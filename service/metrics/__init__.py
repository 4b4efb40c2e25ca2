"""Prometheus metrics: of the data in the store, and of the process itself."""
