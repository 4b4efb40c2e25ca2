"""Answers questions of language models by the Model Context Protocol: tools that read by REST and change nothing, and
the runbooks as resources. Only `service.app` and the commands `serve` and `mcp` import the package, because it needs
the extra `mcp`."""
