"""Grafana dashboards and alert rules for operators, generated from Python with one common set of thresholds."""
