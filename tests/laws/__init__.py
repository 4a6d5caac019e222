"""Laws that hold for every cluster there could be."""
