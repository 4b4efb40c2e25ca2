"""The commands of `txnscope`, a module for each: `run(flags, settings) -> int`. A module is imported when its command
runs."""
