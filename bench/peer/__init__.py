"""What peers.py is made of: data and references, measuring, and a module for each peer."""
