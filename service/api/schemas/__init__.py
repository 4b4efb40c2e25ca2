"""The bodies of answers: pydantic models as OpenAPI shows them, and functions that build bodies from the store."""
