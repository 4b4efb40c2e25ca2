"""Processes that watch one another: a supervisor, its children, and the lifeline between them.

Used by the command line (`watch`, `ingest`, `serve`) and the streaming application. `service.kafka` and `service.store`
report their steps with `waiting.step`; other packages use `identity` and `Backoff`. The package imports nothing else of
the project.
"""
