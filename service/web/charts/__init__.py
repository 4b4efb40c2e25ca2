"""Drawings as geometry: the offset ruler, the swimlane, charts by minute. Pure: computes SVG attributes from
numbers."""
