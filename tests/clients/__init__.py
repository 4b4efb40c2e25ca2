"""Small applications with the common client libraries. Each is a process that tests control and kill."""
