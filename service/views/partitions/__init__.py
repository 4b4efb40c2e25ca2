"""Partitions as people read them: the judged open entries, the consumer groups that the entries block, and the outcome
of offsets."""
