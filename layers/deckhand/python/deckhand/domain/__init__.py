"""What things are and the rules they obey. Pure: no I/O, clock, randomness, environment or AWS."""
