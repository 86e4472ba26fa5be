"""Views of graphs and runs: summaries, listings, profiles, pictures, the first NaN."""
