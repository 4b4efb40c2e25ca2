"""The canary, which makes transactions of its own: the names of its ids and topic, the coordinator of each transaction,
and the results of its rounds. Pure."""
