"""The REST API. `service.app` imports it; so do the pages, for its parameters, errors and caching, and the command
line, which prints some of its bodies."""
