"""Sends all requests to brokers, including the one that writes a marker. The only other clients of Kafka are two
producers: in `service.canary.probe` and in `service.notifications.receivers.kafka_topic`.

Imported by `spark_jobs` and, in `service`, by `api`, `app`, `canary`, `cli`, `notifications`, `remediation` and
`views`.
"""
