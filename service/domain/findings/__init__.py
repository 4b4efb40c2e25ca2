"""Findings: the problems of a cluster, present or expected. Contains the pure rules that derive observations from
facts, and the lifecycle of a finding."""
