"""Tests of docs/install, which run the commands on its pages."""
