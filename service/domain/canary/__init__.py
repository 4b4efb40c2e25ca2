"""The canary's names, which coordinator each of its transactions uses, and what its rounds show. Pure."""
