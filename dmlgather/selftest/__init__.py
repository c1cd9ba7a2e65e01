"""The self-test: random plans on the user's device, by each kernel or each CPU loop and recipe, compared with the reference."""
