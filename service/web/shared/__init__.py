"""Helpers of every page: the frame around it, addresses, numbers and times in words, rendering. Imports no page."""
