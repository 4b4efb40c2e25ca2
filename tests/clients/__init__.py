"""Small applications with the common client libraries. Each application is a process that tests control and kill."""
