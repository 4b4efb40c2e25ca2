"""The error with which a release ends before anything has changed."""

from __future__ import annotations


class ReleaseError(Exception):
    """The release cannot be made. The message is one line, or the output of the program that failed."""
