"""The three streaming queries. Each begins at the store's positions, reads through Spark, and writes into the store."""
