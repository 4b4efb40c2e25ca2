"""Delivers the events of findings in order: to receivers, from a stored position, and to open streams."""
