"""Pushes to the devices of people: keys, addresses, sending, and the job that does it."""
