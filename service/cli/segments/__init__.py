"""Broker segment files on the command line, without broker and store: their files, lines, owners, explanations."""
