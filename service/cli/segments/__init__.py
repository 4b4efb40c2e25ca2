"""Reads broker segment files for the command line, without a broker or a store: lines, owners, explanations."""
