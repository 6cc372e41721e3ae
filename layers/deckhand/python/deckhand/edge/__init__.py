"""HTTP in and out: routes made from operations, authentication, error mapping, server-sent events, the streaming runtime."""
