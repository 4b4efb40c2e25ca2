"""The three streaming queries. Each query begins at the store's positions, reads through Spark, and writes into the
store."""
