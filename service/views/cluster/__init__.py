"""A cluster as a whole: its description, its sources, what is unknown, its verdict."""
