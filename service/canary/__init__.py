"""Runs small transactions of txnscope's own at each coordinator, and measures whether and how fast they run. Only
`service.app` and the command line import this package."""
