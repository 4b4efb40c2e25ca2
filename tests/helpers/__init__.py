"""Helpers for tests of several packages: servers, brokers, waiting, and builders of bytes, stores and findings."""
