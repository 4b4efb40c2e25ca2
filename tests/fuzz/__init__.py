"""Feeds mutated logs to the decoder, as executors do: `python -m tests.fuzz`."""
