"""A cluster as a whole: its description, its sources, its unknowns, and the verdict on it."""
