"""Writes the missing marker of a hanging transaction on request, after it has repeated all three confirmation steps."""
