"""What is on disk about one run: status, events, lease. Imports neither torch nor yaml."""
