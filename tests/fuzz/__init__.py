"""Mutated logs against the executors' path: `python -m tests.fuzz`."""
