"""The commands of `txnscope`: modules with a function `run(flags, settings) -> int`. A module is imported when one of
its commands runs."""
