"""Tests of docs/install, which run or check the commands on its pages."""
