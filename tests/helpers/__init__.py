"""What tests of several packages use: servers, brokers, waiting, and builders of bytes, stores and findings."""
