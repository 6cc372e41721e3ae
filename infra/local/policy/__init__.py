"""`deckhand policy`: try a policy document before it is put in force."""
