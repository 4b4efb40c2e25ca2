"""Reads client.properties as Kafka's Java clients do: the file, the values of its config providers, and the meaning of
each key. Only modules of `service.kafka` import this package."""
