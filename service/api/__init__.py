"""The REST API. Imported by `service.app`; by the pages, which share its parameters, errors and caching; and by the
command line, which prints some of its bodies."""
