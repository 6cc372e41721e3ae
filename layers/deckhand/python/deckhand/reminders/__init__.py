"""The index of due reminders, kept in step with cards and people, and the sweep that claims what is due."""
