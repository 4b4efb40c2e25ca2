"""A simulation in which the truth is known: clients, coordinator, partition, cleaner and observer."""
