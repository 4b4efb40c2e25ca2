"""Writes the missing marker of a hanging transaction on request, after all three confirmation steps were repeated."""
