"""The HTTP server: uvicorn, with bounds on connections, deadlines, and a log that a flood of requests cannot fill."""
