"""DirectML indexing operators on any OS."""
