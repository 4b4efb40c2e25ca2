"""What is seen: facts of the store, judged and put into words, for REST, pages, metrics and the command line. No HTTP
and no HTML."""
