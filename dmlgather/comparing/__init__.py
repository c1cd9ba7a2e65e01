"""What a comparison found, said in full; saved as a case that can be replayed, or as a script of its own."""
