"""The pages of partitions, of the groups behind them and of a single offset: who blocks whom."""
