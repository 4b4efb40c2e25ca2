"""Processes that watch one another: a supervisor, its children, and the lifeline between them.

The command line (`watch`, `ingest`, `serve`) and the streaming application use it; it imports nothing else of the
project. `service.kafka` and `service.store` report their steps to `progress`.
"""
