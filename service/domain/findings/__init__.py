"""Findings: what is wrong or about to be. Contains the pure rules from facts to observations, and the life of a
finding."""
