"""gitkruise against a real forge."""
