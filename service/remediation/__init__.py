"""Writes the missing marker of a hanging transaction when asked to, but first repeats all three confirmation steps."""
