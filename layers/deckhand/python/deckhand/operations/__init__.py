"""What can be done, one module a family, and the registry that routes, tools and schemas are made from."""
