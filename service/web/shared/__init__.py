"""Helpers of every page: the frame around it, and rendering. Imports no page."""
