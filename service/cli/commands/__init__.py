"""The commands of `txnscope`, a module for each: `run(flags, settings) -> int`. Imported when the command runs."""
