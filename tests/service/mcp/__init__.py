"""Tests of the tools for language models, driven by the client of the official SDK."""
