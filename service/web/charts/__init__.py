"""Drawings as geometry: the offset ruler, the swimlane, charts by minute, the chart of expiring ids. Pure: computes SVG
attributes from numbers."""
