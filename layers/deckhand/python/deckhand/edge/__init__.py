"""HTTP in and out: routes made from operations, authentication, errors, server-sent events, the runtime."""
