"""Pure rules about data partitions: the open entries and the transactions that will end them, the consumer groups that
wait behind open entries, and the outcome of the transaction at each offset."""
