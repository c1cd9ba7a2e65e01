"""The self-test: random plans on the user's device, by every kernel and CPU loop, compared with the reference."""
