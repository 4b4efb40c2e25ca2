"""Sends all requests to brokers, including the one that writes a marker. The only other client of Kafka is the producer
of `service.notifications.receivers.kafka_topic`.

Imported by `spark_jobs`, the command line, `service.app`, and the packages that ask brokers: `service.remediation`,
`service.views`, the routes `explain` and `resolve`.
"""
