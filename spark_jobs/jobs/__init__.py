"""The three streaming queries, which write into the store. The two queries that read logs begin at the store's
positions."""
