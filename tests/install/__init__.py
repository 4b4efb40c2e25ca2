"""Tests of docs/install: the commands are taken from its pages, and run."""
