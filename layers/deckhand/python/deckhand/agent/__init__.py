"""The agent loop and its parts. No storage and no HTTP but the call to the gateway."""
