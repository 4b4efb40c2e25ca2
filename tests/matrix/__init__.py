"""The matrix: every scenario on every version of Kafka, one version at a time, with a record of each run."""
