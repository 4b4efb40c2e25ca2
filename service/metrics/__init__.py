"""Prometheus metrics of everything the store knows."""
