"""The canary, which makes transactions of its own: the ids and partitions that they use, and the results of its rounds.
Pure."""
