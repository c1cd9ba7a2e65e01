"""The self-test: random plans on the user's device, compared with the reference."""
