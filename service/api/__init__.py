"""The REST API. Imported by `service.app`; parts of it also by the pages (most of `http`, and types of parameters), by
`service.mcp` (the path of the API), and by the command line (bodies of answers, access)."""
