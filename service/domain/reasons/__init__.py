"""Reasons why something cannot be read or judged, or hangs: values with a code, each shown as one sentence.

Facts travel and are stored as these values; code asks for their class or code and never parses a sentence. Pure.
Imports no other package of the project; every package may import it.
"""
