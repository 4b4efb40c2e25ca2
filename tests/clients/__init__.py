"""Small applications with the client libraries that people use, each a process that a test commands and kills."""
