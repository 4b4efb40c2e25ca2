"""What every route needs of HTTP: parameters, pages and cursors, problems (RFC 9457), the ways to store and Kafka."""
