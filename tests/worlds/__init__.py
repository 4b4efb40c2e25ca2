"""A simulator of the truth: clients, coordinator, partition, cleaner and observer, with histories drawn at random."""
