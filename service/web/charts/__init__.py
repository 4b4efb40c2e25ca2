"""Drawings as geometry: the offset ruler, the swimlane, charts by minute. Pure: numbers in, attributes out."""
