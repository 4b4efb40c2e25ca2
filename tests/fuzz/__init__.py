"""Decodes mutated logs as executors do: `python -m tests.fuzz`."""
