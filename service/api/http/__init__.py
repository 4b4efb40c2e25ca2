"""The HTTP parts that all routes share: parameters, pages and cursors, problems (RFC 9457), store and Kafka."""
