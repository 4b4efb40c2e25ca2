"""Tells receivers about findings: the events of the store in order, from a stored position, to any number of them."""
