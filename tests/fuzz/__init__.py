"""Fuzzes the decoder: `python -m tests.fuzz` makes mutated logs, and reads them as an executor does."""
