"""Durable state: the ItemStore port, its two engines, and the repositories written once on top of it."""
