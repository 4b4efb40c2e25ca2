"""Processes that watch one another: a supervisor, its children, and what each knows of the other's life.

Used by the command line (`watch`, `ingest`, `serve`) and by the streaming application; imports nothing else of the
project. `progress` is also reported to by `service.kafka` and `service.store`.
"""
