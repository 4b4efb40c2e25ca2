"""Findings: what is wrong or about to be. Pure rules from facts to observations, and the life of a finding."""
