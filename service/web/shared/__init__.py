"""Helpers for all pages: the frame around a page, and rendering. Imports no page."""
