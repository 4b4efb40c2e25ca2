"""Draws each dashboard from a Prometheus' answers to its queries, for docs/boards. Needs no Grafana."""
