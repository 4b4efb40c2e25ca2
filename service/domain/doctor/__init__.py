"""Report on what a principal may see of a cluster: lines, the trust in our verdicts, and the ACLs that are missing."""
