"""What a principal may see of a cluster, line by line, what that makes of our verdicts, and which ACLs are missing."""
