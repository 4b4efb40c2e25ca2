"""Recording and alerting rules: built here, committed as YAML, tested with promtool."""
