"""Partitions as people read them: their judged open entries, the consumer groups that these block, and the fate of
offsets."""
