"""Findings: headline, plan, place, ending."""
