"""The REST API. Imported by `service.app`, by the pages (for parameters, errors and caching), and by the command line
(for some bodies of answers)."""
