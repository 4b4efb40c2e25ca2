"""Sends mutated HTTP requests to a real `txnscope serve`."""
