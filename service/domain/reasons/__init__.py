"""Reasons why something cannot be read or judged, or hangs: values with a code, each shown as one sentence.

The store keeps these values. Code compares their classes or codes, and never parses a sentence. Pure. Of the project,
this package imports only `service.domain.error_codes`; every package may import it.
"""
