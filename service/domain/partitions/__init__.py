"""Pure rules about data partitions: their open entries and who will end them, the consumer groups that wait behind
them, and the fate of offsets."""
