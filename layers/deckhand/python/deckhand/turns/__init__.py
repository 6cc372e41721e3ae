"""A turn as a job: lease, event log, recorder, replay, stop."""
