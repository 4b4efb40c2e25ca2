"""Bytes as Kafka writes them, built by hand: written from the specification and not with the decoder's own code."""
