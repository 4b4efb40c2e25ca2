"""Sends all requests to brokers, including the one that writes a marker. The only other client of Kafka is the producer
of `service.notifications.receivers.kafka_topic`.

Imported by `spark_jobs`, `service.cli`, `service.app`, `service.remediation`, `service.views`, and by the routes
`explain` and `resolve`.
"""
