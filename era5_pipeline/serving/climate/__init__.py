"""How the weather of a place has changed, over HTTP."""
