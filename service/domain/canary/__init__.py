"""The canary's own transactions: the ids and partitions that they use, and the results of the canary's rounds. Pure."""
