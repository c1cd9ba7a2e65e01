"""The self-test: random plans on the user's device, by every kernel or by every loop and recipe, judged by the reference."""
