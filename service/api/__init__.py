"""REST. Imported by `service.app`, and by the pages, which show what it answers."""
