"""Pages for people: what is loaded, the routes with examples, and a place's climate; none loads from a network."""
