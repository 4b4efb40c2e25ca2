"""The three streaming queries, each from the store's positions through Spark into the store."""
