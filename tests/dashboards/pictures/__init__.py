"""Draws each dashboard for docs/boards, from Prometheus' answers to the queries of the dashboard. Needs no Grafana."""
