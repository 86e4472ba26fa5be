"""The parts of what an engine is, one module each. `engines.base` puts them together."""
