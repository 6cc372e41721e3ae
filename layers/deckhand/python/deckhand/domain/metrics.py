"""The metrics that a card may take in by `meta.ingest`, and the fields of the row that each makes beside its date."""

METRICS: dict[str, tuple[str, ...]] = {
    "sleep_analysis": ("hours", "asleep", "inBed", "deep", "rem", "core", "awake", "source", "bedTime", "wakeTime"),
    "step_count": ("count",),
    "apple_exercise_time": ("minutes",),
    "mindful_minutes": ("minutes",),
    "workouts": (
        "trained",
        "type",
        "durationMin",
        "distanceKm",
        "calories",
        "avgHr",
        "maxHr",
        "elevationM",
        "startTime",
    ),
    "heart_rate_variability": ("ms",),
    "resting_heart_rate": ("bpm",),
    "walking_heart_rate_average": ("bpm",),
    "blood_oxygen_saturation": ("pct",),
    "body_mass": ("kg",),
    "body_fat_percentage": ("pct",),
    "blood_pressure_systolic": ("systolic",),
    "blood_pressure_diastolic": ("diastolic",),
}
