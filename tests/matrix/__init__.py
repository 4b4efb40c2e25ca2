"""Runs every scenario on every version of Kafka, one version at a time, and keeps a record of each run."""
