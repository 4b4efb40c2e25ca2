"""The pages of what blocks consumers: the partitions, the consumer groups behind them, and single offsets."""
