"""What operators watch: Grafana dashboards and alert rules, made by Python from one place of thresholds."""
