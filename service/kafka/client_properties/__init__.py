"""Reads client.properties as Kafka's Java clients do: the file, the values that config providers add, the meaning of
each key. Only modules of `service.kafka` import it."""
