"""Runs small transactions of txnscope's own at each coordinator, and measures whether and how fast they run. Only
`service.app`, the command line and (its configuration) `service.settings` import this package."""
