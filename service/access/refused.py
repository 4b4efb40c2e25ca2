"""The error of credentials that are wrong."""


class BadCredentials(Exception):
    """The credentials are wrong. The text says what is wrong with them, never what they are."""
