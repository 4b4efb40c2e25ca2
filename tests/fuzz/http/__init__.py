"""Mutated HTTP requests against a real `txnscope serve`."""
