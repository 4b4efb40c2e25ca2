"""The bodies of answers: their pydantic models as OpenAPI shows them, and how they are made of what the store holds."""
