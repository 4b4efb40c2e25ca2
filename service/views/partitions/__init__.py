"""Partitions: their open entries judged, who blocks whom, what became of offsets."""
