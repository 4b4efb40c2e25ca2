"""Views: facts from the store, judged and put into words, for REST, pages, metrics and the command line. Contains no
HTTP and no HTML."""
