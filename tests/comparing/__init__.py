"""What a comparison says, saves and writes as a script."""
