"""The report of `txnscope doctor` on what a principal may see of a cluster: its lines, how far each kind of verdict can
be trusted, and the missing ACLs."""
