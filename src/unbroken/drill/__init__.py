"""The drill: scratch copies of a run are interrupted through the real launcher, resumed, and compared bit for bit."""
