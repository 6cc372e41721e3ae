"""Deckhand: a chat agent for a deck of personal data cards."""
