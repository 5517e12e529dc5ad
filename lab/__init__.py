"""The lab: what each positional encoding does to a transformer that learns. Run it with scripts/lab."""
