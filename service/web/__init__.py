"""The page: server-rendered, complete without script, over the same reads as REST."""
