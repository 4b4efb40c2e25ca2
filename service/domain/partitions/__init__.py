"""What is open on data partitions, who will end it, which groups wait behind it, and what became of offsets. Pure."""
