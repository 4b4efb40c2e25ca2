"""Builds bytes as Kafka writes them. The builders follow the specification, and share no code with the decoder."""
