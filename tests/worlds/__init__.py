"""A simulation of clients, coordinator, partition, log cleaner and observer, in which the truth is known."""
